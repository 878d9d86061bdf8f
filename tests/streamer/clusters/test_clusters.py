"""Clusters of output folders: against a plain recount of verdicts.jsonl, and with every command that writes them."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from streamer.clusters.clusters import counted, write_clusters
from streamer.clusters.keep import rank_by
from streamer.clusters.table import Counts
from streamer.settings.settings import Settings, load
from streamer.transports.files.output_folder import CHECKPOINT, FORMAT, OUTPUTS, Delivered, DeliveryHooks, OutputFolder
from tests.support.command_line import run
from tests.support.doomed_clusters import no_bar
from tests.support.examples import examples
from tests.support.file_filter import UNPACKED
from tests.support.paths import ROOT

SOURCES = ("one.jsonl", "two.jsonl")
HOSTS = ("a.example", "b.example", "c.example")
TIMES = "decode.time=/time"
ROOTS = ("update", "extends", "suspect")
"""Roots that name another document."""

Place = tuple[str, int]


def settings_of(records_max: int) -> Settings:
    return load(None, [f"batch.records_max={records_max}", TIMES], over_files=True)


@dataclass(frozen=True)
class Written:
    """A line of an input with its verdict, as a filter writes both."""

    verdict: dict[str, Any]
    value: bytes

    @property
    def place(self) -> Place:
        return self.verdict["source"], self.verdict["line"]

    @property
    def original(self) -> Place:
        return self.verdict["original_source"], self.verdict["original_line"]


ELSEWHERE = 36
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ("unique", "duplicate", "duplicate", "duplicate", "undecidable", "dead-letter", *ROOTS, "given-back")
        ),
        st.sampled_from(SOURCES),
        st.integers(0, 40),
        st.sampled_from((*HOSTS, None)),
        st.sampled_from((None, 1_700_000_000, 1_700_001_000, 1_700_002_000)),
        st.sampled_from((None, 0.5, 0.9, 1.0, 1.1)),
    ),
    min_size=8,
    max_size=25,
)
"""Verdict, source, what it names (from ELSEWHERE on a document of another folder, else an earlier one), host, time, length."""


def history(steps: Sequence[tuple[str, str, int, str | None, int | None, float | None]]) -> list[Written]:
    """What a filter could have written: originals come before what names them, and only duplicates are given back."""
    written: list[Written] = []
    lines: dict[str, int] = dict.fromkeys(SOURCES, 0)
    for number, (verdict, source, choice, host, time, length) in enumerate(steps):
        earlier = [each for each in written if each.verdict["verdict"] not in ("dead-letter", "given-back")]
        if verdict == "given-back":
            back = {each.place for each in written if each.verdict["verdict"] == "given-back"}
            dropped = [each for each in earlier if each.verdict["verdict"] == "duplicate" and each.place not in back]
            if dropped:
                drop = dropped[choice % len(dropped)]
                kept = {name: drop.verdict[name] for name in ("source", "line", "id", "original")}
                written.append(Written({**kept, "verdict": verdict, "distance": None, "reason": ""}, drop.value))
            continue
        lines[source] += 1
        line: dict[str, Any] = {
            "source": source,
            "line": lines[source],
            "id": f"id-{number}",
            "verdict": verdict,
            "original": None,
        }
        line |= {"distance": None, "reason": "similar"}
        if verdict in ("duplicate", *ROOTS):
            if choice < ELSEWHERE and earlier:
                named = earlier[choice % len(earlier)]
                line |= {"original": named.verdict["id"]}
                line |= {"original_source": named.place[0], "original_line": named.place[1]}
            else:
                line |= {"original": f"far-{choice}", "original_source": "three.jsonl", "original_line": choice + 1}
            line["similarity"] = 0.7 + choice / 1_000
            if length is not None:
                line |= {"relation": "edited", "length": length, "new": 0.01}
        value: dict[str, Any] = {"id": f"id-{number}", "text": f"text {number}"}
        value |= {name: each for name, each in (("host", host), ("time", time)) if each is not None}
        written.append(Written(line, b"{" if verdict == "dead-letter" else orjson.dumps(value)))
    return written


def write(folder: Path, written: Sequence[Written]) -> None:
    """The folder that a filter leaves."""
    contents = dict.fromkeys(OUTPUTS, b"")
    for each in written:
        verdict = each.verdict["verdict"]
        name = f"{verdict if verdict in ('duplicate', 'dead-letter') else 'unique'}.jsonl"
        contents[name] += each.value + b"\n"
        contents["verdicts.jsonl"] += orjson.dumps(each.verdict) + b"\n"
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    lines = {source: sum(each.verdict["source"] == source for each in written) for source in SOURCES}
    inputs = [Delivered(f"/data/{source}", source, f"stream-{source}", lines[source]) for source in SOURCES]
    lengths = {name: len(content) for name, content in contents.items()}
    checkpoint = {"format": FORMAT, "compression": "", "lengths": lengths, "sources": inputs}
    (folder / CHECKPOINT).write_bytes(orjson.dumps(checkpoint))


class Recount:
    """Clusters by their definition, from the lines of verdicts.jsonl one after the other."""

    def __init__(self, written: Sequence[Written], field: str = "") -> None:
        self.field = field
        self.root: dict[Place, Place] = {}
        self.shown: dict[Place, dict[str, Any]] = {}
        self.last: dict[Place, int] = {}
        self.values: dict[Place, dict[str, Any]] = {}
        self.lengths: dict[Place, float] = {}
        self.replaced: set[Place] = set()
        self.order: list[Place] = []
        for number, each in enumerate(written):
            verdict = each.verdict["verdict"]
            if verdict != "dead-letter":
                self._count(number, each, verdict)

    def _count(self, number: int, each: Written, verdict: str) -> None:
        place, line = each.place, each.verdict
        value = orjson.loads(each.value)
        self.values[place], self.last[place] = value, number
        self.root[place], self.lengths[place] = place, 1.0
        time = value.get("time")
        time_ms = None if time is None else 1_000 * time
        self.shown[place] = line | {"host": value.get("host"), "time_ms": time_ms}
        if self.field:
            found = value.get(self.field)
            self.shown[place]["field"] = None if found is None else str(found)
        if "original_source" in line:
            named = {"id": line["original"], "source": each.original[0], "line": each.original[1]}
            if verdict == "update":
                self.replaced.add(each.original)
            if verdict == "duplicate":
                if each.original not in self.root:
                    self.root[each.original], self.lengths[each.original] = each.original, 1.0
                    self.shown[each.original] = named | {"elsewhere": True}
                    self.order.append(each.original)
                self.root[place] = self.root[each.original]
                self.lengths[place] = self.lengths[each.original] * line.get("length", 1.0)
        if place not in self.order:
            self.order.append(place)

    def members(self) -> list[list[Place]]:
        """Each cluster, the root first."""
        roots = [place for place in self.order if self.root[place] == place]
        return [[root, *(each for each in self.order if self.root[each] == root != each)] for root in roots]

    def best(self, cluster: Sequence[Place], policy: str) -> Place | None:
        """The best by a policy's definition: of equal ones the earliest."""
        if cluster[0] not in self.values:
            return None
        standing = [place for place in cluster if place not in self.replaced]
        hosts = [*HOSTS[1:], HOSTS[0]]
        key: dict[str, Callable[[Place], float]] = {
            "first": lambda _: 0,
            "longest": lambda place: self.lengths[place],
            "newest": lambda place: self.values[place].get("time", -1),
            "host-order": lambda place: -hosts.index(self.values[place].get("host", HOSTS[0])),
            "max:/time": lambda place: self.values[place].get("time", -1),
            "min:/time": lambda place: -self.values[place].get("time", 10**10),
            "first:/host=b.example,c.example": lambda place: -hosts.index(self.values[place].get("host", HOSTS[0])),
        }
        return max(standing, key=key[policy], default=None)

    def clusters(self, policy: str) -> list[dict[str, Any]]:
        lines = []
        for cluster in self.members():
            root, *others = cluster
            if not others and self.shown[root].get("verdict") not in ROOTS:
                continue
            here = [place for place in cluster if place in self.values]
            hosts = dict.fromkeys(self.values[place]["host"] for place in here if "host" in self.values[place])
            best = self.best(cluster, policy)
            line: dict[str, Any] = {"root": self.shown[root], "members": [self.shown[place] for place in others]}
            line |= {"documents": len(here), "hosts": [*hosts], "best": None if best is None else self.shown[best]}
            lines.append(line | self.seen(here))
        return lines

    def seen(self, here: Sequence[Place]) -> dict[str, int | None]:
        times = [1_000 * self.values[place]["time"] for place in here if "time" in self.values[place]]
        return {"first_ms": min(times, default=None), "last_ms": max(times, default=None)}

    def counts(self, policy: str) -> dict[str, dict[str, int | None]]:
        """Counts of each cluster that has a best document, by the id of that."""
        found = {}
        for cluster in self.members():
            here = [place for place in cluster if place in self.values]
            best = self.best(cluster, policy)
            if best is not None:
                hosts = {self.values[place]["host"] for place in here if "host" in self.values[place]}
                counts = {"documents": len(here), "hosts": len(hosts), **self.seen(here)}
                found[self.values[best]["id"]] = {f"neardup.{name}": each for name, each in counts.items()}
        return found

    def kept(self, policy: str, written: Sequence[Written]) -> bytes:
        best = [self.best(cluster, policy) for cluster in self.members()]
        numbers = sorted(self.last[place] for place in best if place is not None)
        return b"".join(written[number].value + b"\n" for number in numbers)


POLICIES = (
    "first",
    "longest",
    "newest",
    "host-order",
    "max:/time",
    "min:/time",
    "first:/host=b.example,c.example",
)


@examples(100)
@given(STEPS, st.sampled_from((1, 3, 100)), st.sampled_from(POLICIES), st.booleans())
def test_clusters_equal_a_recount_of_the_verdicts_and_kept_lines_a_naive_policy(
    steps: Sequence[Any], records_max: int, policy: str, with_counts: bool
) -> None:
    written = history(steps)
    with TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, written)
        (folder / "hosts").write_text(f"{HOSTS[1]}\n{HOSTS[2]}\n")
        chosen = settings_of(records_max)
        chosen_policy = rank_by(f"host-order={folder / 'hosts'}" if policy == "host-order" else policy, chosen.decode)
        counts = write_clusters(folder, chosen, chosen_policy, no_bar, with_counts=with_counts)
        recount = Recount(written, (chosen_policy.pointer or "").removeprefix("/"))
        assert [
            orjson.loads(line) for line in (folder / "clusters.jsonl").read_bytes().splitlines()
        ] == recount.clusters(policy)
        kept, plain = (folder / "kept.jsonl").read_bytes(), recount.kept(policy, written)
        if with_counts:
            of_clusters = recount.counts(policy)
            lines = [orjson.loads(line) for line in plain.splitlines()]
            assert [orjson.loads(line) for line in kept.splitlines()] == [
                line | of_clusters[line["id"]] for line in lines
            ]
        else:
            assert kept == plain
        assert counts == {
            "documents": len(recount.values),
            "clusters": sum(len(cluster) > 1 for cluster in recount.members()),
            "duplicates": sum(recount.root[place] != place for place in recount.values),
            "largest": max(
                (sum(each in recount.values for each in cluster) for cluster in recount.members()), default=0
            ),
            "best": recount.kept(policy, written).count(b"\n"),
        }
        assert not list(folder.glob("*.unfinished"))


COUNTS = Counts(documents=3, hosts=2, first_ms=None, last_ms=7)
COUNTED = b',"neardup.documents":3,"neardup.hosts":2,"neardup.first_ms":null,"neardup.last_ms":7}'


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (b'{"id": "a", "n": 12345678901234567890123}', b'{"id": "a", "n": 12345678901234567890123' + COUNTED),
        (b'\xef\xbb\xbf {"id": NaN } \r', b'\xef\xbb\xbf {"id": NaN ' + COUNTED),
        (b'{"t": "\xb8\xdb"}', b'{"t": "\xb8\xdb"' + COUNTED),
        (b'{"neardup.hosts":9, "n": 1.5}', b'{"n":1.5' + COUNTED),
        (b'{"t": "\xb8\xdb", "neardup.hosts":9}', b'{"t": "\xb8\xdb", "neardup.hosts":9' + COUNTED),
        (b'{"t":"\\"neardup.hosts\\""}', b'{"t":"\\"neardup.hosts\\""' + COUNTED),
        (b'["a", {"text": "t"}]', b'["a", {"text": "t"}]'),
        (b"\x00\x00\x00\x00\x07avro}", b"\x00\x00\x00\x00\x07avro}"),
        (b"plain {text}", b"plain {text}"),
    ],
)
def test_counts_are_the_last_members_of_a_line_whose_other_bytes_stay(value: bytes, line: bytes) -> None:
    assert counted(value, COUNTS) == line


STORIES = 12


def articles(first: int, end: int) -> bytes:
    """Lines of articles by number: every third begins a story, and two copies of it follow, one longer and one shorter."""
    lines = []
    for number in range(first, end):
        words = np.random.default_rng(number // 3).integers(97, 123, (150, 7), np.uint8)
        text = b" ".join(map(bytes, words)).decode() + ("", " and so on and on", "")[number % 3]
        value = {"id": f"page-{number}", "text": text[3 * (number % 3 == 2) :], "host": HOSTS[number % 3]}
        value["score"] = (0.5, "0.7", 0.25)[number % 3]
        lines.append(orjson.dumps(value | {"time": 1_000 - number}) + b"\n")
    return b"".join(lines)


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("one.jsonl").write_bytes(articles(0, 20))
    Path("two.jsonl").write_bytes(articles(20, 3 * STORIES) + b"no document\n")


SIMHASH = ("--set", "fingerprint.scheme=simhash", "--set", "index.distance_max=7")
KEY = ("--set", "fingerprint.key=public", "--set", TIMES)


def filtered(*options: str, files: Sequence[str] = SOURCES, out: str = "out") -> dict[str, Any]:
    done = run("filter", *files, "--out", out, "--index", f"{out}-index", "--json", "--processes", "1", *KEY, *options)
    assert done.code == 0, done.err
    values: dict[str, Any] = json.loads(done.out)
    return values


def content(name: str, out: str = "out") -> bytes:
    """A file's lines, whatever their compression; read by other means than the program."""
    (path,) = (path for path in Path(out).glob(f"{name}*") if path.suffix in UNPACKED)
    return UNPACKED[path.suffix](path.read_bytes())


def story_of(line: bytes) -> int:
    return int(orjson.loads(line)["id"].removeprefix("page-")) // 3


@pytest.mark.usefixtures("inputs")
@pytest.mark.parametrize(
    ("options", "suffix"),
    [
        ((), ""),
        (("--set", "index.insert=unique", "--compress", "zst"), ".zst"),
        ((*SIMHASH, "--set", "index.insert=unique", "--compress", "gz"), ".gz"),
    ],
)
def test_a_filter_writes_clusters_of_each_scheme_and_compression_and_keeps_one_article_a_story(
    options: Sequence[str], suffix: str
) -> None:
    values = filtered("--keep", "first", *options)
    clusters = [orjson.loads(line) for line in content("clusters.jsonl").splitlines()]
    assert [len(each["members"]) for each in clusters] == [2] * STORIES
    assert [each["hosts"] for each in clusters] == [[*HOSTS]] * STORIES
    assert [each["best"] for each in clusters] == [each["root"] for each in clusters]
    measure = "distance" if set(SIMHASH) <= set(options) else "similarity"
    assert all(member[measure] is not None for each in clusters for member in each["members"])
    assert content("kept.jsonl") == content("unique.jsonl")
    assert Path("out", f"kept.jsonl{suffix}").is_file()
    assert values["clusters"] == {
        "documents": 3 * STORIES,
        "clusters": STORIES,
        "duplicates": 2 * STORIES,
        "largest": 3,
        "best": STORIES,
    }


@pytest.mark.usefixtures("inputs")
def test_a_folder_of_several_runs_has_the_clusters_of_one_run_and_repeats_give_the_same_bytes() -> None:
    filtered("--clusters")
    filtered(files=SOURCES[:1], out="resumed")
    assert not Path("resumed", "clusters.jsonl").exists()
    filtered(files=SOURCES, out="resumed")
    for _ in range(2):
        assert run("clusters", "resumed", *KEY).code == 0
        assert content("clusters.jsonl", "resumed") == content("clusters.jsonl")
    assert not Path("resumed", "kept.jsonl").exists()


@pytest.mark.usefixtures("inputs")
def test_policies_choose_another_article_of_each_story_and_parquet_has_the_same_rows() -> None:
    Path("hosts").write_text("c.example\nB.example\n")
    for policy, place in (
        ("longest", 1),
        ("newest", 0),
        ("host-order=hosts", 2),
        ("max:/score", 1),
        ("min:/score", 2),
        ("first:/host=c.example,b.example", 2),
        ("first", 0),
    ):
        filtered("--keep", policy, "--format", "parquet")
        kept = content("kept.jsonl").splitlines()
        assert [orjson.loads(line)["id"] for line in kept] == [f"page-{3 * story + place}" for story in range(STORIES)]
        assert parquet.read_table("out/kept.parquet").to_pylist() == [orjson.loads(line) for line in kept]
    assert parquet.read_table("out/clusters.parquet").num_rows == STORIES
    counts = {"documents": 3 * STORIES, "clusters": STORIES, "duplicates": 2 * STORIES, "largest": 3, "best": STORIES}
    shown = run("clusters", "out", *KEY).out.split()
    assert shown == [word for name, count in counts.items() for word in (name, str(count))]
    assert run("verify", "--out", "out", "--index", "out-index", *KEY).code == 0


@pytest.mark.usefixtures("inputs")
def test_a_policy_by_what_no_document_has_is_told() -> None:
    filtered("--clusters")
    for policy, is_told in (
        ("max:/scoer", True),
        ("first:/host=d.example", True),
        ("max:/score", False),
        ("first", False),
    ):
        done = run("clusters", "out", "--keep", policy, *KEY)
        assert done.code == 0
        assert ("no document has what the policy ranks by" in done.err) == is_told, policy


@pytest.mark.usefixtures("inputs")
def test_kept_lines_say_how_often_when_and_on_how_many_hosts_a_text_was_printed() -> None:
    filtered("--keep", "max:/score", "--counts", "--format", "parquet")
    kept, clusters = content("kept.jsonl").splitlines(), content("clusters.jsonl").splitlines()
    assert parquet.read_table("out/kept.parquet").to_pylist() == [orjson.loads(line) for line in kept]
    for story, (line, cluster) in enumerate(zip(map(orjson.loads, kept), map(orjson.loads, clusters), strict=True)):
        last_ms = 1_000 * (1_000 - 3 * story)
        assert (line["neardup.documents"], line["neardup.hosts"]) == (3, 3)
        assert (line["neardup.first_ms"], line["neardup.last_ms"]) == (last_ms - 2_000, last_ms)
        assert (cluster["documents"], cluster["first_ms"], cluster["last_ms"]) == (3, last_ms - 2_000, last_ms)
        assert [cluster["root"]["field"], *(each["field"] for each in cluster["members"])] == ["0.5", "0.7", "0.25"]
        assert cluster["best"]["field"] == "0.7"
    refused = run("clusters", "out", "--counts", *KEY)
    assert refused.code == 2
    assert "give --keep, too" in refused.err


@pytest.mark.usefixtures("inputs")
def test_a_story_that_began_in_another_folder_keeps_nothing_here() -> None:
    filtered(files=SOURCES[:1])
    done = run("filter", "two.jsonl", "--out", "later", "--index", "out-index", "--keep", "longest", *KEY)
    assert done.code == 0, done.err
    first, *others = [orjson.loads(line) for line in content("clusters.jsonl", "later").splitlines()]
    assert first["root"] == {"source": "one.jsonl", "line": 19, "id": "page-18", "elsewhere": True}
    assert (first["documents"], first["best"], first["hosts"]) == (1, None, ["c.example"])
    assert all(each["best"] is not None for each in others)
    assert [*map(story_of, content("kept.jsonl", "later").splitlines())] == [*range(7, STORIES)]


@pytest.mark.usefixtures("inputs")
def test_a_kill_leaves_no_half_file_and_the_next_run_writes_the_same() -> None:
    filtered("--keep", "first")
    whole = content("clusters.jsonl"), content("kept.jsonl")
    for file, count in (("clusters.jsonl", 20), ("kept.jsonl", 3)):
        for name in ("clusters.jsonl", "kept.jsonl"):
            Path("out", name).unlink(missing_ok=True)
        command = [sys.executable, "-m", "tests.support.doomed_clusters", str(Path("out").resolve()), file, str(count)]
        assert subprocess.run(command, cwd=ROOT, check=False).returncode == -signal.SIGKILL
        (unfinished,) = Path("out").glob(f"{file}.*.unfinished")
        half = unfinished.read_bytes()
        assert half
        assert whole[file == "kept.jsonl"].startswith(half)
        assert not Path("out", file).exists()
    assert content("clusters.jsonl") == whole[0]
    assert run("clusters", "out", "--keep", "first", *KEY).code == 0
    assert (content("clusters.jsonl"), content("kept.jsonl")) == whole
    assert not [*Path("out").glob("*.unfinished")]


@pytest.mark.usefixtures("inputs")
def test_what_cannot_be_done_is_said_and_leaves_the_former_files() -> None:
    filtered("--keep", "first")
    before = content("clusters.jsonl"), content("kept.jsonl")

    def refused(*arguments: str, code: int) -> str:
        done = run("clusters", *arguments)
        assert done.code == code, done.err
        assert (content("clusters.jsonl"), content("kept.jsonl")) == before
        return done.err

    assert "names no host" in refused("out", "--keep", "host-order=/dev/null", code=78)
    assert "is no policy: name first, longest, newest, max:POINTER" in refused("out", "--keep", "nearest", code=78)
    assert "checkpoint.json" in refused("nowhere", code=78)
    assert "set decode.time" in refused("out", "--keep", "newest", code=78)
    assert "one.jsonl, line 1: there is no text at /body" in refused("out", "--set", "decode.text=/body", code=78)
    Path("out", "clusters.sqlite.unfinished").mkdir()
    assert "the clusters cannot be written" in refused("out", code=73)
    Path("out", "clusters.sqlite.unfinished").rmdir()
    folder = OutputFolder(Path("out"), DeliveryHooks())
    folder.open()
    assert "another filter writes here" in refused("out", code=78)
    folder.close()
    verdicts = Path("out", "verdicts.jsonl")
    verdicts.write_bytes(
        verdicts.read_bytes().replace(b'"verdict":"unique"', b'"verdict":"strange"', 1).replace(b"}\n", b"}", 1)
    )
    assert "verdicts.jsonl, line 1: does not fit" in refused("out", code=78)
