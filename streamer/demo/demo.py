"""The demo: filters synthetic news by both schemes, then shows totals, scores and pairs.

1. write the documents   2. filter them by each scheme; a repeated run resumes   3. totals and scores   4. examples
5. documents with different verdicts
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from streamer.demo.differences import Difference, differences, shown_first
from streamer.demo.documents import documents, label_of
from streamer.errors import EXIT_INTERRUPTED, InputChanged, InputUnreadable
from streamer.explain.explanation import Span
from streamer.explain.plain_table import PlainTable
from streamer.explain.report import marked
from streamer.explain.side_by_side import in_one
from streamer.explain.words import words
from streamer.service.file_job import filter_files
from streamer.settings.settings import Decode, Settings
from streamer.transports.files.replacing import replacing

DIFFERENCES_SHOWN = 8

SCHEMES = {"minhash": "MinHash", "simhash": "SimHash"}
"""Display names for schemes in table order, the default first."""

_DOCUMENTS = "documents.jsonl"
_DIFFERENCES = "differences.jsonl"
_ID = re.compile(rb'"id": ?"([^"]+)"')
_STYLES = {"removed": "red", "added": "green"}


@dataclass(frozen=True, slots=True)
class Example:
    """A near-duplicate by MinHash, its original, and the changes between them.

    >>> spans = (Span("same", "the old "), Span("differing", "harbour"))
    >>> example = Example("en-1/edited", "en-1", 0.93, "words replaced", spans, changes_hidden=0)
    >>> [span.text for span in example.spans if span.kind != "same"]
    ['harbour']
    """

    id: str
    original: str
    similarity: float
    edit: str | None
    spans: tuple[Span, ...]
    changes_hidden: int


@dataclass(frozen=True, slots=True)
class Score:
    """Verdicts scored against the labels in the ids.

    matched  copies by edit with an original from the same article, longer versions included
    wrong    pairs (id, original) across articles

    >>> score = Score(Counter({"boilerplate": 40}), Counter({"boilerplate": 38}), [])
    >>> score.matched["boilerplate"] / score.copies["boilerplate"]
    0.95
    """

    copies: Counter[str]
    matched: Counter[str]
    wrong: list[tuple[str, str]]


def run_demo(directory: Path, console: Console, settings: Mapping[str, Settings], language: str = "en") -> int:
    """Run the demo in `directory`, and return the exit code.

    settings  by scheme; the demo overrides field names, index folder and key, so runs are repeatable
    language  one of `words.LANGUAGES`

    Raises InputChanged for another release's demo.
    """
    say, said = partial(console.print, soft_wrap=True, highlight=False), words("demo", language)
    documents_file = directory / _DOCUMENTS
    say(said["documents"].format(file=documents_file, count=write_documents(documents_file)))
    decided_now = 0
    outs = {scheme: _folder("out", scheme, directory) for scheme in SCHEMES}
    for scheme, out in outs.items():
        chosen = settings_for_demo(settings[scheme], directory)
        say(f"\n{_introduction(chosen, said)}\n{said['into'].format(folder=out)}")
        totals, finished = filter_files(chosen, [documents_file], out, console)
        decided_now += totals.records - totals.replayed
        if not finished:
            say(said["stopped"])
            return EXIT_INTERRUPTED
    console.print()
    console.print(totals_table(outs, language))
    if decided_now == 0:
        say(said["already-decided"].format(directory=directory))
    console.print()
    console.print(score_table({scheme: score(out) for scheme, out in outs.items()}, language))
    say(f"\n{said['pairs']}")
    for example in examples(outs["minhash"], documents_file):
        console.print(render(example, language), soft_wrap=True)
    differing = _differences(outs, documents_file, settings)
    file = directory / _DIFFERENCES
    file.write_bytes(b"".join(orjson.dumps(asdict(each)) + b"\n" for each in differing))
    if not differing:
        say(f"\n{said['no-differences']}")
        return 0
    shown = shown_first(differing, DIFFERENCES_SHOWN)
    say("\n" + said["differences"].format(count=len(differing), file=file, shown=len(shown)))
    console.print(_difference_table(shown, language))
    return 0


def settings_for_demo(settings: Settings, directory: Path) -> Settings:
    """The settings with the demo's field names, key and index folder."""
    index_directory = _folder("index", settings.fingerprint.scheme, directory)
    # Made-up news has no hosts.
    decode = Decode(metadata=settings.decode.metadata, host_scope="none")
    return settings.replaced(
        decode=dict(decode), index={"directory": index_directory}, fingerprint={"key": "public", "key_file": None}
    )


def made_in(directory: Path) -> list[Path]:
    """Files and folders that the demo creates in its directory."""
    folders = [_folder(kind, scheme, directory) for scheme in SCHEMES for kind in ("out", "index")]
    return [directory / _DOCUMENTS, directory / _DIFFERENCES, *folders]


def _folder(kind: str, scheme: str, directory: Path) -> Path:
    return directory / (kind if scheme == "minhash" else f"{kind}-{scheme}")


def write_documents(file: Path) -> int:
    """Write all documents or none, and return their count. A file with the same content stays.

    Raises InputChanged for other content, InputUnreadable for an inaccessible file.
    """
    lines = list(documents())
    content = b"\n".join([*lines, b""])
    try:
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            with replacing(file) as new:
                new.write(content)
        elif file.read_bytes() != content:
            raise InputChanged(
                f"{file} is not from this release's demo: remove {file.parent}, or set another --directory."
            )
    except OSError as error:
        raise InputUnreadable(f"{file}: {error.strerror}.") from error
    return len(lines)


def examples(out: Path, documents_file: Path, count: int = 3) -> list[Example]:
    """`count` of MinHash's near-duplicates in `out`, changed ones first, with varied edits and languages."""
    left = [verdict for verdict in verdicts(out) if verdict["verdict"] == "duplicate"]
    chosen: list[dict[str, Any]] = []
    while left and len(chosen) < count:
        best = min(left, key=lambda verdict: _dullness(verdict, chosen))
        left.remove(best)
        chosen.append(best)
    by_id = documents_of(documents_file, {verdict[side] for verdict in chosen for side in ("id", "original")})
    return [_example(verdict, by_id) for verdict in chosen]


def render(example: Example, language: str = "en") -> Text:
    """The pair in two or three lines, with changes marked [-removed-]{+added+} and in colour."""
    said = words("demo", language)
    edit = said["edit"].format(edit=words("edits", language)[example.edit]) if example.edit else ""
    pair = said["pair"].format(original=example.original, similarity=example.similarity)
    text = Text.assemble((example.id, "bold"), f"{pair}{edit}\n  ")
    if not example.spans:
        return text.append(said["same-words"])
    for span in example.spans:
        shown = marked(span.text, span.kind) if span.kind in _STYLES else span.text
        text.append(shown, _STYLES.get(span.kind, "dim" if span.kind == "gap" else ""))
    if example.changes_hidden:
        text.append("\n  " + said["hidden"].format(count=example.changes_hidden), style="dim")
    return text


def score(out: Path) -> Score:
    """Score the verdicts in `out` against the labels in the ids."""
    matched: Counter[str] = Counter()
    copies: Counter[str] = Counter()
    wrong: list[tuple[str, str]] = []
    for verdict in verdicts(out):
        label = label_of(verdict["id"] or "")
        if label and label.edit:
            copies[label.edit] += 1
        if verdict["verdict"] not in ("duplicate", "extends"):
            continue
        original = label_of(verdict["original"])
        if label and label.edit and original and original.article == label.article:
            matched[label.edit] += 1
        else:
            wrong.append((verdict["id"], verdict["original"]))
    return Score(copies, matched, wrong)


def totals_table(outs: Mapping[str, Path], language: str = "en") -> PlainTable:
    """Document counts by verdict and scheme."""
    said = words("demo", language)
    rows = _columns(said["verdicts"], language)
    counts = {scheme: Counter(verdict["verdict"] for verdict in verdicts(out)) for scheme, out in outs.items()}
    rows.add_row(said["all-documents"], *(f"{counts[scheme].total():,}" for scheme in SCHEMES))
    for verdict, meaning in words("outcomes", language).items():
        rows.add_row(meaning, *(f"{counts[scheme][verdict]:,}" for scheme in SCHEMES))
    return rows


def score_table(scores: Mapping[str, Score], language: str = "en") -> PlainTable:
    """Matched copies by edit and scheme, and wrong matches."""
    said = words("demo", language)
    rows = _columns(said["matched"], language)

    def add(name: str, counts: Iterable[tuple[int, int]]) -> None:
        rows.add_row(name, *(said["matched-of"].format(matched=matched, copies=copies) for matched, copies in counts))

    for edit, meaning in words("edits", language).items():
        add(meaning, ((scores[each].matched[edit], scores[each].copies[edit]) for each in SCHEMES))
    add(said["all-copies"], ((scores[each].matched.total(), scores[each].copies.total()) for each in SCHEMES))
    rows.add_row(said["wrong"], *(f"{len(scores[scheme].wrong)}" for scheme in SCHEMES))
    return rows


def verdicts(out: Path) -> Iterator[dict[str, Any]]:
    """Lines in a folder's verdicts.jsonl."""
    with (out / "verdicts.jsonl").open("rb") as lines:
        yield from map(orjson.loads, lines)


def documents_of(documents_file: Path, ids: set[str]) -> dict[str, tuple[str, str]]:
    """Titles and texts by id."""
    by_id: dict[str, tuple[str, str]] = {}
    with documents_file.open("rb") as lines:
        for line in lines:
            match = _ID.search(line)
            if match and match[1].decode() in ids:
                document = orjson.loads(line)
                by_id[document["id"]] = document.get("title", ""), document["text"]
    return by_id


def _introduction(settings: Settings, said: Mapping[str, str]) -> str:
    if settings.fingerprint.scheme == "minhash":
        return said["minhash"].format(similarity_min=settings.minhash.similarity_min)
    scheme = said["simhash"].format(distance_max=settings.index.distance_max, bits=settings.fingerprint.bits)
    look = {"none": "", "cosine": said["cosine"], "metadata": said["metadata"]}[settings.fingerprint.second_look]
    return scheme + look.format(**settings.second_look.model_dump())


def _columns(title: str, language: str) -> PlainTable:
    rows = PlainTable(title, *SCHEMES.values(), ids=(title,), right=tuple(SCHEMES.values()))
    rows.columns[0].min_width = max(map(cell_len, words("edits", language).values()))
    return rows


def _differences(outs: Mapping[str, Path], documents_file: Path, settings: Mapping[str, Settings]) -> list[Difference]:
    both = {scheme: list(verdicts(out)) for scheme, out in outs.items()}
    flagged = [verdict for lines in both.values() for verdict in lines if verdict["verdict"] == "duplicate"]
    by_id = documents_of(documents_file, {verdict[side] for verdict in flagged for side in ("id", "original")})
    return differences(both["minhash"], both["simhash"], by_id, settings)


def _difference_table(shown: Sequence[Difference], language: str) -> PlainTable:
    said = words("demo", language)
    names = (said["document"], said["original"], *SCHEMES.values())
    rows = ((each.id, each.original, *each.in_words(language)) for each in shown)
    return PlainTable(*names, said["truth"], rows=rows, ids=names)


def _dullness(verdict: dict[str, Any], chosen: Sequence[dict[str, Any]]) -> tuple[bool, ...]:
    label = label_of(verdict["id"])
    others = [label_of(other["id"]) for other in chosen]
    edits = {other.edit for other in others if other}
    languages = {other.article[:2] for other in others if other}
    return (
        verdict["similarity"] == 1,
        label is None or label.edit in edits,
        label is None or label.article[:2] in languages,
        # One line cannot show a long text that moved.
        label is None or label.edit == "moved",
        label is None or verdict["original"] != label.article,
    )


def _example(verdict: dict[str, Any], by_id: Mapping[str, tuple[str, str]]) -> Example:
    spans, hidden = in_one(by_id[verdict["original"]][1], by_id[verdict["id"]][1])
    label = label_of(verdict["id"])
    edit = label.edit if label else None
    return Example(verdict["id"], verdict["original"], verdict["similarity"], edit, spans, hidden)
