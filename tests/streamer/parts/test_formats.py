"""The formats between the parts: round trips, and clear errors for whatever is no batch."""

import ast
import json
import zlib
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index import Entries, Kind, Position, Source, Verdict
from streamer.parts import envelope, fingerprint_batch, verdict_batch
from streamer.parts.envelope import BatchUnreadable, Heading, differing, stamp_text
from streamer.parts.fingerprint_batch import (
    FingerprintBatch,
    fitting,
    joined,
    joined_samples,
    pack_fingerprints,
    unpack_fingerprints,
)
from streamer.parts.verdict_batch import VerdictBatch, pack_verdicts, unpack_verdicts
from tests.support.examples import examples

WHERE = "documents-fingerprints/3 offset 17"
NO_DOCUMENT = Heading("{}", "a-topic-id", "documents", 3, 40, 40)

texts = st.text(max_size=12)
optional = st.none() | st.text(min_size=1, max_size=12)


@st.composite
def headings(draw, count):
    begin = draw(st.integers(0, 2**40))
    gaps = draw(st.lists(st.integers(1, 2**33), min_size=count, max_size=count))
    offsets = begin + np.cumsum([0, *gaps])[:count].astype(np.uint64)
    end = (int(offsets[-1]) if count else begin) + draw(st.integers(1, 9))
    stamp = stamp_text(draw(st.dictionaries(texts, texts, max_size=3)))
    return Heading(stamp, draw(texts), draw(texts), draw(st.integers(0, 99)), begin, end), offsets


def column(draw, kind, *shape):
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    return np.frombuffer(draw(st.binary(min_size=size, max_size=size)), kind).reshape(shape)


@st.composite
def fingerprint_batches(draw):
    count, words = draw(st.integers(0, 5)), draw(st.integers(1, 3))
    heading, offsets = draw(headings(count))
    listed = {"min_size": count, "max_size": count}
    look_bytes = draw(st.none() | st.integers(0, 9))
    own = [f"{heading.topic}/{heading.partition}/{offset}" for offset in offsets.tolist()]
    given_ids = draw(st.lists(optional, **listed))
    entries = Entries(
        sources=(Source(heading.stream, heading.partition),),
        source_numbers=np.zeros(count, np.uint32),
        offsets=offsets,
        kinds=np.array(draw(st.lists(st.sampled_from(list(Kind)), **listed)), np.uint8),
        reasons=column(draw, np.uint8, count),
        fingerprints=column(draw, np.uint64, count, words),
        times_ms=column(draw, np.int64, count),
        ids=[position if each is None else each for position, each in zip(own, given_ids, strict=True)],
        looks=None if look_bytes is None else column(draw, np.uint8, count, look_bytes),
        hosts=draw(st.lists(optional, **listed)),
        named=np.array(draw(st.lists(st.booleans(), **listed)), np.bool_),
        digests=column(draw, np.uint64, count, 2),
        lengths=column(draw, np.uint32, count),
    )
    return FingerprintBatch(heading, entries, draw(st.lists(optional, **listed)))


@st.composite
def verdict_batches(draw):
    count, words = draw(st.integers(0, 5)), draw(st.integers(1, 3))
    heading, offsets = draw(headings(count))
    listed = {"min_size": count, "max_size": count}
    streams = draw(st.dictionaries(texts, st.text(min_size=1, max_size=5), min_size=1, max_size=3))
    positions = st.builds(
        Position, st.builds(Source, st.sampled_from(sorted(streams)), st.integers(0, 9)), st.integers(0, 2**63)
    )
    originals = draw(st.lists(st.none() | positions, **listed))
    named = {position.source.stream for position in originals if position is not None}
    return VerdictBatch(
        heading=heading,
        decider=draw(texts),
        offsets=offsets,
        verdicts=np.array(draw(st.lists(st.sampled_from(list(Verdict)), **listed)), np.uint8),
        reasons=column(draw, np.uint8, count),
        distances=column(draw, np.int16, count),
        ratios=column(draw, np.uint16, count),
        replayed=np.array(draw(st.lists(st.booleans(), **listed)), np.bool_),
        kinds=column(draw, np.uint8, count),
        fingerprints=column(draw, np.uint64, count, words),
        ids=draw(st.lists(optional, **listed)),
        details=draw(st.lists(optional, **listed)),
        original_ids=[None if position is None else draw(optional) for position in originals],
        original_positions=originals,
        names={stream: name for stream, name in streams.items() if stream in named},
    )


def assert_equal(left, right):
    """All fields, whatever they hold; arrays with their types and shapes."""
    assert type(left) is type(right)
    for field in fields(left):
        ours, theirs = getattr(left, field.name), getattr(right, field.name)
        if isinstance(ours, Entries):
            assert_equal(ours, theirs)
        elif isinstance(ours, np.ndarray):
            assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), field.name
            assert ours.tobytes() == theirs.tobytes(), field.name
        else:
            assert ours == theirs, field.name


@given(fingerprint_batches())
def test_fingerprints_come_back_as_they_were_packed(batch):
    assert_equal(unpack_fingerprints(pack_fingerprints(batch), WHERE), batch)


@given(verdict_batches())
def test_verdicts_come_back_as_they_were_packed(batch):
    assert_equal(unpack_verdicts(pack_verdicts(batch), WHERE), batch)


@given(fingerprint_batches(), st.data())
def test_sampled_rows_come_back_with_their_features(batch, data):
    rows = data.draw(st.lists(st.integers(0, 4), unique=True)) if len(batch.entries) == 5 else []
    sets = [np.unique(column(data.draw, np.uint32, data.draw(st.integers(1, 9)))) for _ in rows]
    leasts = data.draw(st.lists(st.integers(0, 2**64 - 1), min_size=len(rows), max_size=len(rows)))
    samples = dict(zip(rows, zip(leasts, sets, strict=True), strict=True))
    found = unpack_fingerprints(pack_fingerprints(replace(batch, samples=samples)), WHERE).samples
    assert [(row, least, features.tolist()) for row, (least, features) in found.items()] == [
        (row, least, features.tolist()) for row, (least, features) in samples.items()
    ]


@pytest.mark.parametrize("samples", [{2: (7, np.ones(1, np.uint32))}, {0: (7, np.ones(0, np.uint32))}])
def test_samples_without_a_row_or_without_features_are_refused(samples):
    with pytest.raises(BatchUnreadable, match="a sample in it"):
        unpack_fingerprints(pack_fingerprints(replace(SOME, samples=samples)), WHERE)


def test_a_batch_takes_samples_while_there_is_room_and_joined_ones_keep_their_documents():
    large, small = np.arange(40_000, dtype=np.uint32), np.arange(9, dtype=np.uint32)
    chosen = fitting({0: (1, large), 3: (2, large), 4: (3, small)})
    assert [(row, least) for row, (least, _) in chosen.items()] == [(0, 1), (4, 3)]
    batches = [replace(SOME, samples={1: (1, small)}), SOME, replace(SOME, samples={0: (2, small), 1: (3, small)})]
    assert [(row, least) for row, (least, _) in joined_samples(batches).items()] == [(1, 1), (4, 2), (5, 3)]


def two_packed():
    empty = FingerprintBatch(
        NO_DOCUMENT, replace(SOME.entries, **{name: getattr(SOME.entries, name)[:0] for name in COLUMNS}), []
    )
    return [(unpack_fingerprints, pack_fingerprints(each)) for each in (SOME, empty)] + [
        (unpack_verdicts, pack_verdicts(TOLD))
    ]


COLUMNS = (
    "source_numbers",
    "offsets",
    "kinds",
    "reasons",
    "fingerprints",
    "times_ms",
    "ids",
    "looks",
    "hosts",
    "named",
)
SOME = FingerprintBatch(
    Heading(stamp_text({"scheme": "simhash"}), "a-topic-id", "documents", 3, 40, 50),
    Entries(
        sources=(Source("a-topic-id", 3),),
        source_numbers=np.zeros(2, np.uint32),
        offsets=np.array([41, 49], np.uint64),
        kinds=np.array([Kind.NEAR, Kind.DEAD_LETTER], np.uint8),
        reasons=np.array([0, 19], np.uint8),
        fingerprints=np.array([[2**64 - 1], [0]], np.uint64),
        times_ms=np.array([-1, 2**41], np.int64),
        ids=["news-1", "documents/3/49"],
        looks=np.zeros((2, 4), np.uint8),
        hosts=["example.org", None],
        named=np.array([True, False]),
        digests=np.array([[1, 2], [0, 0]], np.uint64),
        lengths=np.array([2_000, 0], np.uint32),
    ),
    [None, "no JSON"],
)
TOLD = VerdictBatch(
    SOME.heading,
    "an-index",
    SOME.entries.offsets,
    np.array([Verdict.DUPLICATE, Verdict.DEAD_LETTER], np.uint8),
    SOME.entries.reasons,
    np.array([3, -1], np.int16),
    np.array([1_125, 0], np.uint16),
    np.array([False, True]),
    SOME.entries.kinds,
    SOME.entries.fingerprints,
    ["news-1", None],
    [None, "no JSON"],
    ["news-0", None],
    [Position(Source("older", 1), 7), None],
    {"older": "documents"},
)


@pytest.mark.parametrize(("unpack", "content"), two_packed())
def test_a_batch_that_was_cut_anywhere_is_refused_by_its_place(unpack, content):
    for size in range(len(content)):
        with pytest.raises(BatchUnreadable, match=f"^{WHERE}: "):
            unpack(content[:size], WHERE)
    with pytest.raises(BatchUnreadable, match=f"^{WHERE}: "):
        unpack(None, WHERE)
    with pytest.raises(BatchUnreadable, match=f"^{WHERE}: "):
        unpack(content + b"more", WHERE)


@examples(300)
@given(st.data())
def test_a_batch_with_a_changed_byte_is_refused_by_its_place(data):
    unpack, content = data.draw(st.sampled_from(two_packed()))
    at = data.draw(st.integers(0, len(content) - 1))
    changed = bytearray(content)
    changed[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(BatchUnreadable, match=f"^{WHERE}: "):
        unpack(bytes(changed), WHERE)


@examples(300)
@given(st.data())
def test_a_batch_that_another_program_sealed_wrongly_is_refused_or_read_and_never_crashes(data):
    unpack, content = data.draw(st.sampled_from(two_packed()))
    changed = bytearray(content[:-4])
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    with_seal = bytes(changed) + zlib.crc32(changed).to_bytes(4, "little")
    with suppress(BatchUnreadable):
        found = unpack(with_seal, WHERE)
        assert found.heading.begin <= found.heading.end


@pytest.mark.parametrize(("unpack", "content"), two_packed())
def test_another_version_is_refused_with_what_to_do(unpack, content):
    newer = bytearray(content[:-4])
    newer[4:6] = (5).to_bytes(2, "little")
    with pytest.raises(BatchUnreadable, match=r"version 5 .* reads version 4 .* update"):
        unpack(bytes(newer) + zlib.crc32(newer).to_bytes(4, "little"), WHERE)


def test_one_format_is_not_taken_for_the_other():
    with pytest.raises(BatchUnreadable, match="does not begin with NDVD"):
        unpack_verdicts(pack_fingerprints(SOME), WHERE)
    with pytest.raises(BatchUnreadable, match="does not begin with NDFP"):
        unpack_fingerprints(pack_verdicts(TOLD), WHERE)


@pytest.mark.parametrize("offsets", [[39, 49], [41, 50], [49, 41], [41, 41]])
def test_offsets_outside_of_the_range_or_out_of_order_are_refused(offsets):
    wrong = np.array(offsets, np.uint64)
    with pytest.raises(BatchUnreadable, match="offsets"):
        unpack_fingerprints(pack_fingerprints(replace(SOME, entries=replace(SOME.entries, offsets=wrong))), WHERE)
    with pytest.raises(BatchUnreadable, match="offsets"):
        unpack_verdicts(pack_verdicts(replace(TOLD, offsets=wrong)), WHERE)


def test_the_page_of_the_formats_shows_the_bytes_of_the_example():
    """As docs/formats.md draws them, field by field."""
    heading = Heading("{}", "S", "T", 3, 40, 50)
    entries = replace(SOME.entries.take(np.array([0])), sources=(Source("S", 3),), looks=None)
    content = pack_fingerprints(FingerprintBatch(heading, entries, [None]))
    expected = (
        b"NDFP" + b"\x04\x00" + b"\x00\x00" + b"\x03\x00\x00\x00" + b"\x01\x00\x00\x00"
        + (40).to_bytes(8, "little") + (50).to_bytes(8, "little")
        + b"\x02\x00\x00\x00{}" + b"\x01\x00\x00\x00S" + b"\x01\x00\x00\x00T"
        + b"\x01\x00\x00\x00" + b"\x00\x00\x00\x00"
        + (41).to_bytes(8, "little") + b"\xff" * 8 + b"\x00" + b"\x00" + b"\x01" + b"\xff" * 8
        + (1).to_bytes(8, "little") + (2).to_bytes(8, "little") + (2_000).to_bytes(4, "little")
        + b"\x01\x06\x00\x00\x00news-1" + b"\x01\x0b\x00\x00\x00example.org" + b"\x00"
        + b"\x00\x00\x00\x00"
    )  # fmt: skip
    assert content == expected + zlib.crc32(expected).to_bytes(4, "little")


def test_differing_stamps_are_told_by_name():
    ours, theirs = stamp_text({"scheme": "simhash", "bits": "64"}), stamp_text({"scheme": "minhash", "bits": "64"})
    assert differing(ours, ours) == ""
    assert differing(ours, theirs) == "scheme is simhash here and minhash there"
    assert differing(ours, stamp_text({"scheme": "simhash"})) == "bits is 64 here and not set there"
    assert "stamp" in differing(ours, "no JSON")


def test_batches_of_several_sources_are_joined_in_their_order():
    other = replace(SOME, entries=replace(SOME.entries, sources=(Source("a-topic-id", 1),)))
    entries = joined([SOME, other, SOME])
    assert entries.sources == (Source("a-topic-id", 3), Source("a-topic-id", 1))
    assert entries.source_numbers.tolist() == [0, 0, 1, 1, 0, 0]
    assert entries.ids == [*SOME.entries.ids] * 3
    assert entries.fingerprints.shape == (6, 1)
    assert entries.looks is not None
    assert entries.looks.shape == (6, 4)


def test_the_formats_import_nothing_of_the_streamer_but_each_other():
    for module in (envelope, fingerprint_batch, verdict_batch):
        tree = ast.parse(Path(module.__file__).read_text())
        modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert {name for name in modules if name.startswith("streamer")} <= {"streamer.parts.envelope"}


def test_a_stamp_is_json_in_one_order():
    assert json.loads(stamp_text({"b": "2", "a": "1"})) == {"a": "1", "b": "2"}
    assert stamp_text({"b": "2", "a": "1"}) == stamp_text({"a": "1", "b": "2"})
