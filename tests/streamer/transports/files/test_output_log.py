"""Outputs of files read back, against folders written by hand: which input line went where."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.entry import Position, Source, Verdict
from streamer.errors import RecoveryRefused
from streamer.records.record import Destination, Record
from streamer.records.route import (
    ORIGINAL_POSITION,
    ORIGINAL_STREAM,
    POSITION,
    REASON,
    STREAM,
    VERDICT,
    parse_original_position,
    restoring_verdict,
)
from streamer.settings.settings import Batching
from streamer.transports.files.output_folder import CHECKPOINT, FORMAT, OUTPUTS, Delivered
from streamer.transports.files.output_log import FileOutputLog
from streamer.transports.transport import NO_TIMESTAMP_MS
from tests.support.examples import examples

INPUTS = (Delivered("/data/one.jsonl", "one.jsonl", "stream-1"), Delivered("/data/two.jsonl", "two.jsonl", "stream-2"))
SOURCES = [Source(each.stream, 0) for each in INPUTS]
FILES = {
    "unique": "unique.jsonl",
    "undecidable": "unique.jsonl",
    "suspect": "unique.jsonl",
    "update": "unique.jsonl",
    "duplicate": "duplicate.jsonl",
    "dead-letter": "dead-letter.jsonl",
}
AMPLE = Batching()


class Line(NamedTuple):
    """A line of an input: where it was sent, of which input it is, and what stands in it."""

    verdict: str
    number: int
    input: int = 0
    value: bytes = b"text"

    @property
    def names_original(self) -> bool:
        return self.verdict in ("duplicate", "suspect", "update")

    def verdict_line(self) -> bytes:
        line = {"source": INPUTS[self.input].name, "line": self.number, "verdict": self.verdict}
        line |= {"id": None, "original": None, "distance": None, "reason": "ordinary"}
        original = {"original_source": INPUTS[1].name, "original_line": 8} if self.names_original else {}
        return orjson.dumps(line | original) + b"\n"

    def record(self) -> Record:
        offset = self.number - 1
        original = Position(SOURCES[1], 7) if self.names_original else None
        named = ((ORIGINAL_POSITION, b"two.jsonl/0/7"), (ORIGINAL_STREAM, b"stream-2"))
        name, stream = INPUTS[self.input].name, INPUTS[self.input].stream
        told = (VERDICT, self.verdict.encode()), (REASON, b"ordinary")
        own = (POSITION, f"{name}/0/{offset}".encode()), (STREAM, stream.encode())
        headers = (*told, *own, *named) if original else (*told, *own)
        assert parse_original_position(headers) == original
        return Record(SOURCES[self.input], name, offset, None, self.value, NO_TIMESTAMP_MS, headers)


def write(folder: Path, lines: Sequence[Line]) -> Path:
    """The folder as a filter leaves it behind."""
    folder.mkdir(exist_ok=True)
    with ExitStack() as stack:
        files = {name: stack.enter_context((folder / name).open("wb")) for name in OUTPUTS}
        for line in lines:
            files[FILES[line.verdict]].write(line.value + b"\n")
            files["verdicts.jsonl"].write(line.verdict_line())
    return folder


def read(
    folder: Path,
    ranges: dict[Source, range] | None = None,
    destinations: Sequence[Destination] = (Destination.UNIQUE,),
    batch: Batching = AMPLE,
) -> list[list[Record]]:
    everything = dict.fromkeys(SOURCES, range(1_000))
    return list(opened(folder, batch).changelog(everything if ranges is None else ranges, destinations))


def opened(folder: Path, batch: Batching) -> FileOutputLog:
    """The log of a folder, all of whose bytes were delivered."""
    lengths = {name: path.stat().st_size if (path := folder / name).exists() else 0 for name in OUTPUTS}
    checkpoint = {"format": FORMAT, "compression": "", "lengths": lengths, "sources": list(INPUTS)}
    (folder / CHECKPOINT).write_bytes(orjson.dumps(checkpoint))
    return FileOutputLog(folder, batch)


LINES = st.lists(
    st.tuples(
        st.sampled_from(list(FILES)), st.integers(0, 1), st.binary(max_size=9).map(lambda raw: raw.replace(b"\n", b""))
    ),
    max_size=30,
)
RANGES = st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda borders: range(min(borders), max(borders)))


@examples(100)
@given(
    chosen=LINES,
    ranges=st.dictionaries(st.sampled_from(SOURCES), RANGES),
    destinations=st.sets(st.sampled_from(list(Destination)), min_size=1),
    batch=st.builds(Batching, records_max=st.integers(1, 5), bytes_max=st.integers(1, 30)),
)
def test_the_wanted_lines_come_back_in_the_order_of_their_delivery_and_in_batches(
    tmp_path_factory: pytest.TempPathFactory,
    chosen: list[tuple[str, int, bytes]],
    ranges: dict[Source, range],
    destinations: set[Destination],
    batch: Batching,
) -> None:
    lines = [Line(verdict, number, origin, value) for number, (verdict, origin, value) in enumerate(chosen, start=1)]
    folder = write(tmp_path_factory.mktemp("out"), lines)
    batches = read(folder, ranges, sorted(destinations), batch)
    wanted_files = {f"{destination}.jsonl" for destination in destinations}
    assert [record for records in batches for record in records] == [
        line.record()
        for line in lines
        if FILES[line.verdict] in wanted_files and line.number - 1 in ranges.get(SOURCES[line.input], ())
    ]
    for number, records in enumerate(batches, start=1):
        sizes = [len(record.value or b"") for record in records]
        assert 0 < len(records) <= batch.records_max
        assert sum(sizes) <= batch.bytes_max or len(records) == 1
        following = batches[number][0] if number < len(batches) else None
        assert (
            following is None
            or len(records) == batch.records_max
            or sum(sizes) + len(following.value or b"") > batch.bytes_max
        )


GOOD = [
    Line("unique", 1, value=b"first"),
    Line("duplicate", 2, value=b"second"),
    Line("undecidable", 3, value=b""),
    Line("dead-letter", 1, 1, value=b"\xff\r"),
    Line("unique", 2, 1, value=b"last"),
]


def test_undecidable_lines_come_back_among_the_unique_ones_and_each_from_its_own_input(tmp_path: Path) -> None:
    (records,) = read(write(tmp_path / "out", GOOD))
    assert [(each.topic, each.source, each.offset, each.value) for each in records] == [
        ("one.jsonl", SOURCES[0], 0, b"first"),
        ("one.jsonl", SOURCES[0], 2, b""),
        ("two.jsonl", SOURCES[1], 1, b"last"),
    ]


def test_a_page_of_a_template_comes_back_as_one_and_names_what_it_resembles(tmp_path: Path) -> None:
    folder = write(tmp_path / "out", [Line("unique", 1)])
    told = {"reason": "template", "original_source": INPUTS[1].name, "original_line": 8}
    line = orjson.loads((folder / "verdicts.jsonl").read_bytes()) | told
    (folder / "verdicts.jsonl").write_bytes(orjson.dumps(line) + b"\n")
    ((found,),) = read(folder)
    assert restoring_verdict(found) is Verdict.TEMPLATE
    assert parse_original_position(found.headers) == Position(SOURCES[1], 7)


def test_an_output_that_is_not_asked_for_is_not_looked_at(tmp_path: Path) -> None:
    folder = write(tmp_path / "out", GOOD)
    (folder / "duplicate.jsonl").unlink()
    (folder / "dead-letter.jsonl").write_bytes(b"")
    assert sum(map(len, read(folder))) == 3


@pytest.mark.parametrize(
    ("records_max", "bytes_max", "expected"),
    [(10, 8, [2, 2, 2, 2, 1]), (10, 9, [3, 3, 3]), (2, 100, [2, 2, 2, 2, 1]), (1, 1, [1] * 9)],
)
def test_a_batch_ends_before_the_line_that_would_exceed_a_bound(
    tmp_path: Path, records_max: int, bytes_max: int, expected: list[int]
) -> None:
    folder = write(tmp_path / "out", [Line("unique", number, value=b"abc") for number in range(1, 10)])
    batches = read(folder, batch=Batching(records_max=records_max, bytes_max=bytes_max))
    assert [len(records) for records in batches] == expected


@pytest.mark.parametrize("content", [b"first\n", b"first\n\nlast\nmore\n"], ids=["fewer", "more"])
def test_an_output_of_more_or_fewer_lines_than_verdicts_is_refused(tmp_path: Path, content: bytes) -> None:
    folder = write(tmp_path / "out", GOOD)
    (folder / "unique.jsonl").write_bytes(content)
    with pytest.raises(RecoveryRefused, match=r"verdicts.jsonl does not fit the other files.*back from a copy"):
        read(folder)


@pytest.mark.parametrize(
    "spoilt",
    [
        GOOD[0].verdict_line()[10:],
        b'["unique"]\n',
        b'{"source": "one.jsonl", "line": 1}\n',
        b'{"source": "one.jsonl", "verdict": "unique"}\n',
        b'{"line": 1, "verdict": "unique"}\n',
        b'{"source": "one.jsonl", "line": null, "verdict": "unique"}\n',
        b'{"source": "one.jsonl", "line": 1, "verdict": "odd"}\n',
        b'{"source": "three.jsonl", "line": 1, "verdict": "unique"}\n',
        b'{"source": ["one.jsonl"], "line": 1, "verdict": "unique"}\n',
        b'{"source": "one.jsonl", "line": 1.5, "verdict": "unique"}\n',
        b'{"source": "one.jsonl", "line": 1, "verdict": {}}\n',
    ],
    ids=[
        "no-json",
        "no-object",
        "no-verdict",
        "no-line",
        "no-source",
        "no-number",
        "unknown-verdict",
        "unknown-source",
        "no-name",
        "no-whole-number",
        "no-word",
    ],
)
def test_a_damaged_verdict_is_refused(tmp_path: Path, spoilt: bytes) -> None:
    folder = write(tmp_path / "out", GOOD)
    verdicts = (folder / "verdicts.jsonl").read_bytes()
    assert read(folder), "the folder is no good to begin with"
    (folder / "verdicts.jsonl").write_bytes(verdicts.replace(GOOD[0].verdict_line(), spoilt))
    with pytest.raises(RecoveryRefused, match=r"verdicts.jsonl does not fit the other files"):
        read(folder)


def test_what_fits_is_given_before_the_rest_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "out", GOOD)
    (folder / "unique.jsonl").write_bytes(b"first\n\n")
    everything = dict.fromkeys(SOURCES, range(1_000))
    batches = opened(folder, Batching(records_max=1)).changelog(everything, [Destination.UNIQUE])
    assert [record.value for record in next(batches)] == [b"first"]
    with pytest.raises(RecoveryRefused):
        next(batches)


def test_duplicates_whose_originals_are_not_named_are_refused_when_they_are_asked_for(tmp_path: Path) -> None:
    folder = write(tmp_path / "out", GOOD)
    verdicts = (folder / "verdicts.jsonl").read_bytes()
    (folder / "verdicts.jsonl").write_bytes(verdicts.replace(b',"original_line":8', b""))
    assert sum(map(len, read(folder))) == 3
    with pytest.raises(RecoveryRefused, match=r"verdicts.jsonl does not fit the other files"):
        read(folder, destinations=(Destination.DUPLICATE,))


def test_an_original_of_another_folder_cannot_be_told(tmp_path: Path) -> None:
    folder = write(tmp_path / "out", GOOD)
    verdicts = (folder / "verdicts.jsonl").read_bytes()
    (folder / "verdicts.jsonl").write_bytes(verdicts.replace(b'"original_source":"two', b'"original_source":"six'))
    ((duplicate,),) = read(folder, destinations=(Destination.DUPLICATE,))
    original = parse_original_position(duplicate.headers)
    assert original is not None
    assert original.source not in SOURCES
