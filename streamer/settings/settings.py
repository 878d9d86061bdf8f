"""All settings with type, bounds, default and meaning; frozen once read.

This is the only module that reads the environment. `load` takes, weakest first: this package's defaults, one TOML file, variables
STREAMER_<SECTION>__<KEY>, and `--set section.key=value`.
"""

import os
from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr, ValidationError, ValidationInfo, model_validator

from streamer.errors import SettingsError
from streamer.settings.ask import Ask
from streamer.settings.decode import Decode as Decode
from streamer.settings.kafka import Kafka
from streamer.settings.methods import Fingerprint as Fingerprint
from streamer.settings.methods import Minhash as Minhash
from streamer.settings.presets import METHOD_KEYS, METHOD_PRESETS, READ_BY_MINHASH, READ_BY_SIMHASH
from streamer.settings.relations import relations
from streamer.settings.second_look import DISTANCES, ROOT_SIMILARITY_MIN, with_implied
from streamer.settings.second_look import SecondLook as SecondLook
from streamer.settings.types import File, Milliseconds, Port, Section, Topic
from streamer.settings.values import Preset, RelationsBroken, fields, gather, nested, problem_lines


class Topics(Section):
    """Topics that the service reads and writes. It creates none; `streamer topics create` does."""

    input: Topic = "documents"
    """Documents of the crawler."""
    unique: Topic = "documents-unique"
    """Unique and undecidable documents."""
    duplicate: Topic = "documents-duplicate"
    """Near-duplicates."""
    dead_letter: Topic = "documents-dead-letter"
    """Records that cannot be decoded."""
    fingerprints: Topic = "documents-fingerprints"
    """Fingerprints between the parts of a service that runs in parts."""
    verdicts: Topic = "documents-verdicts"
    """Verdicts between its parts."""
    stories: Topic | None = None
    """The latest value of each story: a kept document with its duplicates, how many, and from which hosts. Unset, none are
    counted. `streamer filter` counts them in the index only.
    """
    protected: Topic | None = None
    """A copy of each record that resembles an entry of a protected set (index.protected), with the headers of its output.
    Unset, the headers alone tell. `streamer filter` writes protected.jsonl.
    """


class Batching(Section):
    """Size of a batch, which is decided and delivered at once."""

    records_max: int = Field(4_000, ge=1, le=100_000)
    """Maximum records in a batch."""
    bytes_max: int = Field(16 * 2**20, ge=1)
    """Maximum bytes of values in a batch; a single record may exceed it."""
    wait_ms: Milliseconds = 200
    """Maximum wait for new records."""
    idle_ms: Milliseconds | None = None
    """`run --part fingerprint`: write an empty batch for a partition without a record for this long, so that an engine that
    decides in the order of time need not wait for it.
    """


class Index(Section):
    """The index on disk."""

    directory: File = Path("index-data")
    """Folder of the index; one index serves many workers of one host."""
    base: list[Annotated[File, Field(title="folders")]] = Field([])
    """Base sets: folders of other indexes, by the same settings of the method and the same key, which are only read. What
    resembles an entry there is a duplicate of it. A new index takes over their key.
    """
    protected: list[Annotated[File, Field(title="folders")]] = Field([])
    """Protected sets: folders that `streamer protect` made. What resembles an entry there keeps its verdict, and is reported:
    the header neardup.protected, a metric, and topics.protected. Whole documents are compared.
    """
    distance_max: int = Field(DISTANCES["none"], ge=0, le=7)
    """SimHash: near-duplicates differ in at most this many bits, and a second look must agree. A restart applies a smaller
    value. With fingerprint.second_look = "metadata" it follows from the section second_look.
    """
    insert: Literal["unique", "root"] = "root"
    """Documents that enter the index: unique ones; or duplicates too, but a match on one counts only if the document is
    similar enough to the original as well.
    """
    root_similarity_min: float = Field(ROOT_SIMILARITY_MIN, ge=0.01, le=1)
    """MinHash with insert = "root": minimum similarity between a duplicate and its root."""
    root_distance_max: int | None = Field(None, ge=0, le=128)
    """SimHash with insert = "root": maximum bits between a duplicate and its root; unset, twice distance_max. A second look
    judges the root like a match.
    """
    templates: bool = True
    """MinHash with insert = "root": learn what the pages of a site share, and keep pages that add a text of their own."""
    recrawl: Literal["duplicate", "update"] = "update"
    """A document whose id (decode.id) and host the index has, with another text, unless it resembles another document more.
    "update": it replaces the older version. "duplicate": ids play no role, and it is a duplicate if it resembles the older
    version.
    """
    longer: Literal["pass", "duplicate"] = "pass"
    """A document that is at least longer_min longer than the original that it would be a duplicate of: it goes to the unique
    topic with the verdict extends, or it is a duplicate.
    """
    longer_min: float = Field(0.1, ge=0.0001, le=10)
    """How much longer, as a share of the original's letters."""
    new_max: float = Field(1.0, ge=0, le=1)
    """MinHash: the share of a document's shingles that its original may lack (neardup.new). A document with more new text goes to
    the unique topic with the verdict extends and the reason new-text. 1: any. A restart applies another value.
    """
    map_bytes_max: int | None = Field(None, ge=2**20)
    """The index file never grows beyond this; unset, its disk is the limit."""
    entries_max: int | None = Field(None, ge=1)
    """Only this many newest documents count."""
    age_max_hours: float | None = Field(None, ge=0.001)
    """A document counts until the record time of its partition is this much later."""


class Route(Section):
    """Where records go."""

    shadow: bool = False
    """Shadow mode: near-duplicates go to the unique topic too, with their verdict in the headers; so the filter drops
    nothing. It may be switched at any start.
    """


class Guard(Section):
    """The guard against templates and crafted texts: it reports sites whose pages are alike, and attacks on the hash."""

    policy: Literal["alert", "pass"] = "alert"
    """Treatment of near (not exact) duplicates from a host beyond guard.share_max: drop them as usual, or pass them to the
    unique topic as suspects.
    """

    share_max: float = Field(0.8, ge=0.01, le=1)
    """Alert when this share of a host's recent documents are near (not exact) duplicates."""
    documents_min: int = Field(100, ge=1, le=1_000)
    """Fewest recent documents of a host for an alert."""
    crafted: Literal["report", "undecidable"] = "report"
    """MinHash: a text with a line crafted to match others, or to hide, is decided without this line and counted; or it goes
    to the unique topic undecided.
    """


class Audit(Section):
    """The audit: a sample of the stream, compared exactly, that measures the verdicts (`streamer audit`)."""

    one_in: int = Field(256, ge=0, le=2**20)
    """One document in so many, and its near-duplicates with it, is sampled; 0: no audit."""
    bytes_max: int = Field(2**28, ge=2**20)
    """Maximum size of the sample, a file next to the index; the oldest documents go first."""


class Recovery(Section):
    """Policies for states that have more than one right answer."""

    first_start: Literal["earliest", "latest"] = "earliest"
    """Where a new group begins to read. A partition added later always begins at its first record."""
    committed_missing: Literal["stop", "applied", "earliest"] = "stop"
    """The index has decided, but the group has no committed offset: stop, or read on from there."""
    index_behind: Literal["restore", "stop"] = "restore"
    """The group is ahead of the index: restore the index from the unique topic, or stop."""
    topic_recreated: Literal["stop", "continue"] = "stop"
    """The input topic was deleted and made again: stop, or read the new one from its start."""
    offsets_gone: Literal["stop", "skip"] = "stop"
    """Undelivered records were deleted by retention: stop, or skip and count them."""
    foreign_offsets: Literal["stop", "trust"] = "stop"
    """Another program, or a person, committed an offset with undelivered records below it: stop, or skip them."""
    outputs_trimmed: Literal["stop", "continue"] = "stop"
    """The index is to be restored, but outputs have lost records that it may need: stop, or restore the rest."""
    unreadable: Literal["stop", "skip"] = "stop"
    """Records are damaged and stay so: stop, or skip and count them. One dead letter names their offsets."""


class Workers(Section):
    """Worker processes and their supervision."""

    count: int = Field(1, ge=1, le=64)
    """Worker processes; they share the group and the index."""
    processes: int = Field(1, ge=1, le=64)
    """Processes that decode and fingerprint the batches of each worker, in shares; 1: the worker does."""
    progress_timeout_ms: Milliseconds = 60_000
    """A worker without progress for this long is killed and restarted."""
    restart_backoff_ms: Milliseconds = 500
    """Wait before a restart; doubled up to the maximum."""
    restart_backoff_max_ms: Milliseconds = 15_000
    """Longest wait before a restart."""
    deaths_max: int = Field(3, ge=1)
    """After this many worker deaths over a batch, each of its records is tried in its own process; one that ends it becomes
    a dead letter.
    """
    document_timeout_ms: Milliseconds = 5_000
    """Maximum time to decode and fingerprint a record in that trial."""


class Observe(Section):
    """Metrics, health and logs."""

    host: str = "127.0.0.1"
    """Address of /metrics, /healthz and /readyz."""
    port: Port = 9464
    """Port of these; 0 picks a free one."""
    tls_certificate_file: File | None = None
    """Certificate of the port with its chain, in PEM; unset, the port has no TLS."""
    tls_key_file: File | None = None
    """Private key for this certificate, in PEM, without a password."""
    user: str | None = Field(None, min_length=1)
    """User who may read /metrics, by basic authentication; unset, anyone may."""
    password_file: File | None = None
    """File with this user's password; read once, at the start."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level that is logged."""
    log_format: Literal["console", "json"] = "console"
    """Form of a log line on standard error."""


Part = Literal["fingerprint", "decide", "route"]
"""A part that may run in its own processes, named by its last verb."""


class Settings(Section):
    """All settings of the service."""

    kafka: Kafka = Kafka()
    topics: Topics = Topics()
    batch: Batching = Batching()
    decode: Decode = Decode()
    fingerprint: Fingerprint = Fingerprint()
    minhash: Minhash = Minhash()
    second_look: SecondLook = SecondLook()
    index: Index = Index()
    guard: Guard = Guard()
    audit: Audit = Audit()
    route: Route = Route()
    recovery: Recovery = Recovery()
    workers: Workers = Workers()
    observe: Observe = Observe()
    ask: Ask = Ask()
    _part: Part | None = PrivateAttr(None)

    @model_validator(mode="before")
    @classmethod
    def _implied(cls, given: Any) -> Any:
        return with_implied(given)

    @model_validator(mode="after")
    def _relations_hold(self, info: ValidationInfo) -> Self:
        over_files = bool(info.context and info.context.get("over_files"))
        broken = [relation for relation in relations(self.value, over_files=over_files) if not relation.holds]
        if broken:
            raise RelationsBroken(broken)
        return self

    def value(self, key: str) -> Any:
        """A setting's value by its key, `section.key`."""
        return attrgetter(key)(self)

    def replaced(self, **sections: Mapping[str, Any]) -> Self:
        """The settings with other values in these sections, which are not checked.

        >>> Settings().replaced(batch={"records_max": 7}).batch.records_max
        7
        """
        changed = {name: getattr(self, name).model_copy(update=keys) for name, keys in sections.items()}
        return self.model_copy(update=changed)

    @property
    def part(self) -> Part | None:
        """The part that these settings are for; None: the whole service."""
        return self._part

    def for_part(self, part: Part, **sections: Mapping[str, Any]) -> Self:
        """`replaced`, for a part.

        >>> Settings().for_part("route").part
        'route'
        """
        chosen = self.replaced(**sections)
        chosen._part = part
        return chosen


def needs_hosts(settings: Settings) -> bool:
    """Whether the index learns templates, so that documents should have hosts."""
    index = settings.index
    is_learning = settings.fingerprint.scheme == "minhash" and index.insert == "root" and index.templates
    return is_learning and settings.decode.host_scope != "none"


def changed(settings: Settings) -> list[str]:
    """Settings that differ from their defaults, by key."""
    return [key for key, field in fields(Settings).items() if settings.value(key) != field.get_default()]


def without_use(settings: Settings) -> list[str]:
    """Keys of settings that differ from their defaults and have no effect under the current scheme."""
    unread = READ_BY_MINHASH if settings.fingerprint.scheme == "simhash" else READ_BY_SIMHASH
    return [key for key in changed(settings) if key in unread]


def idle_line(key: str, settings: Settings) -> str:
    """Advice for a key from `without_use`."""
    scheme = settings.fingerprint.scheme
    other = "simhash" if scheme == "minhash" else "minhash"
    return f'{key}: has no effect with fingerprint.scheme = "{scheme}": leave it out, or set fingerprint.scheme = "{other}"'


def locale_name(environment: Mapping[str, str] | None = None) -> str:
    """The locale of messages: the first of LC_ALL, LC_MESSAGES and LANG that has a value; C without any.

    environment  None: the process's own

    >>> locale_name({"LC_ALL": "", "LANG": "zh_CN.UTF-8"})
    'zh_CN.UTF-8'
    """
    variables = os.environ if environment is None else environment
    return next((name for each in ("LC_ALL", "LC_MESSAGES", "LANG") if (name := variables.get(each))), "C")


def load(
    file: str | os.PathLike[str] | None = None,
    overrides: Sequence[str] | Mapping[str, Any] = (),
    environment: Mapping[str, str] | None = None,
    *,
    over_files: bool = False,
    preset: str | None = None,
) -> Settings:
    """Load the settings for this run.

    file         a TOML file; None: the one that STREAMER_CONFIG names, if any
    overrides    `section.key=value`, as given with --set; or a mapping from `section.key` to a value
    environment  None: the process's own
    over_files   the run sends nothing to Kafka, so Kafka's sizes bound nothing
    preset       a name in METHOD_PRESETS, in place of the method in file and environment. Overrides win over it, and must
                 have an effect under the resulting scheme.

    A setting's type decides how a variable or override is parsed. A list is a JSON array or separated by commas; an empty text
    unsets a setting that may be unset. Raises SettingsError with one line per problem.
    """
    variables = os.environ if environment is None else environment
    named = variables.get("STREAMER_CONFIG") if file is None else file
    path = Path(named) if named else None
    whole = None if preset is None else Preset(preset, METHOD_PRESETS[preset], METHOD_KEYS)
    values, problems = gather(Settings, path, overrides, variables, whole)
    try:
        settings = Settings.model_validate(nested(values), context={"over_files": over_files})
    except ValidationError as error:
        problems += problem_lines(Settings, error, values)
    else:
        problems += [] if preset is None else [idle_line(key, settings) for key in without_use(settings)]
    if problems:
        raise SettingsError("\n".join(problems))
    return settings
