import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.entry import NO_DISTANCE, NO_NUMBER, Applied, Kind, Position, Source, Verdict
from index.errors import AlreadyOpenError, IndexMissingError, NeardupIndexError
from index.index import Index
from index.matching.root import RootRule
from index.storage import journal
from index.storage.file.commit_hooks import CommitHooks
from index.storage.journal import DECISION, JournaledDecisions
from index.storage.parameters import Parameters
from index.storage.store import Transaction
from tests.support.answers import answers_of
from tests.support.brute_force_index import Answer, BruteForceIndex
from tests.support.entries import ONE, TWO, Row, clustered_fingerprints, ends_of, entries_of, fingerprints_of
from tests.support.examples import examples
from tests.support.roots import root_rules

MAP_BYTES_MAX = 2**30
PAIRS = [Verdict.UNIQUE, Verdict.DUPLICATE]


def opened(directory: Path, parameters: Parameters | None = None, **options: Any) -> Index:
    return Index.open(directory, parameters or Parameters(), **{"map_bytes_max": MAP_BYTES_MAX, **options})


@contextmanager
def fresh(parameters: Parameters, **options: Any) -> Iterator[Index]:
    with tempfile.TemporaryDirectory() as directory, opened(Path(directory), parameters, **options) as index:
        yield index


def admitted(index: Index, rows: list[Row]) -> list[Answer]:
    return answers_of(index.admit(entries_of(rows, index.parameters.bits), ends_of(rows)))


def rows_of(seed: int, count: int, bits: int, *, centres: int = 4, kinds: bool = True) -> list[Row]:
    """Rows of two sources with gaps in their offsets, of all kinds, with many near documents among them."""
    generator = np.random.default_rng(seed)
    offsets = {ONE: 0, TWO: 1000}
    rows = []
    for place, fingerprint in enumerate(clustered_fingerprints(generator, count, bits, centres=centres)):
        source = (ONE, TWO)[int(generator.integers(2))]
        offsets[source] += int(generator.integers(1, 4))
        kind = Kind(int(generator.choice(4, p=[0.7, 0.2, 0.05, 0.05]))) if kinds else Kind.NEAR
        if kind is Kind.EXACT:
            fingerprint = 1 << int(generator.integers(3))
        rows.append(
            Row(offsets[source], fingerprint, source, kind, int(generator.integers(32)), place * 10, f"文档-{place}")
        )
    return rows


@pytest.mark.parametrize("insert", ["unique", "root"])
@pytest.mark.parametrize("bits", [64, 128])
@examples(12)
@given(st.data())
def test_admit_decides_as_brute_force_does_however_the_rows_are_batched(
    insert: Any, bits: int, data: st.DataObject
) -> None:
    distance_max = data.draw(st.integers(0, 7))
    rows = rows_of(data.draw(st.integers(0, 2**32)), data.draw(st.integers(1, 120)), bits)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    root = root_rules(insert, distance_max, data)
    oracle = BruteForceIndex(distance_max, root=root)
    with fresh(Parameters(bits, distance_max, insert, root=root)) as index:
        for begin, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
            part = rows[begin:end]
            assert admitted(index, part) == oracle.admit(entries_of(part, bits), ends_of(part))
        applied = {source: at.offset for source, at in index.applied().items()}
        assert applied == oracle.applied
        found = index.documents(range(len(oracle.known)))
        assert [(d.number, d.root, d.id, d.position, d.kind) for d in found if d] == [
            (known.number, known.root, known.id, known.position, known.kind) for known in oracle.known
        ]
        assert index.documents([len(oracle.known)]) == [None]


@pytest.mark.parametrize("insert", ["unique", "root"])
@examples(10)
@given(st.data())
def test_an_index_decides_by_a_stricter_distance_as_one_that_was_made_with_it(insert: Any, data: st.DataObject) -> None:
    """With insert = "root" as one whose members lie as far apart as they do in this one."""
    distance_max = data.draw(st.integers(0, 6))
    rows = rows_of(data.draw(st.integers(0, 2**32)), data.draw(st.integers(2, 120)), 64)
    half = len(rows) // 2
    root = root_rules(insert, distance_max, data)
    stored = Parameters(
        64, data.draw(st.integers(distance_max + 1, 7)), insert, root=root and RootRule(20, root.member_distance_min)
    )
    oracle = BruteForceIndex(distance_max, root=root)
    with tempfile.TemporaryDirectory() as directory:
        opened(Path(directory), stored).close()
        for part in (rows[:half], rows[half:]):
            asked = Parameters(
                64, distance_max, insert, root=root and replace(root, member_distance_min=distance_max // 3)
            )
            with opened(Path(directory), asked) as index:
                assert admitted(index, part) == oracle.admit(entries_of(part), ends_of(part))


def test_a_verdict_stays_whatever_threshold_is_asked_for_later(tmp_path: Path) -> None:
    rows = [Row(0, 0), Row(1, 0b111), Row(2, 0b1110000)]
    with opened(tmp_path, Parameters(distance_max=3)) as index:
        decided = admitted(index, rows[:2])
    with opened(tmp_path, Parameters(distance_max=2)) as index:
        assert admitted(index, rows[:2]) == decided
        assert [answer.verdict for answer in admitted(index, rows[1:])] == [Verdict.DUPLICATE, Verdict.UNIQUE]
    with opened(tmp_path, Parameters(distance_max=3)) as index:
        assert admitted(index, rows)[:2] == decided


@pytest.mark.parametrize("bits", [64, 128])
@pytest.mark.parametrize("distance_max", range(8))
def test_the_last_bit_decides_wherever_it_stands(bits: int, distance_max: int) -> None:
    generator = np.random.default_rng(distance_max)
    base = int.from_bytes(generator.bytes(bits // 8), "big")
    spread = [block * 16 + 5 for block in range(bits // 16)] + [block * 16 + 9 for block in range(bits // 16)]
    hidden = [spread[: distance_max + 1], list(range(distance_max + 1)), spread[-(distance_max + 1) :]]
    for flipped in hidden:
        near = base ^ sum(1 << bit for bit in flipped[1:])
        far = base ^ sum(1 << bit for bit in flipped)
        with fresh(Parameters(bits, distance_max)) as index:
            answers = [admitted(index, [Row(offset, one)])[0] for offset, one in enumerate([base, near, far])]
        with fresh(Parameters(bits, distance_max)) as index:
            at_once = admitted(index, [Row(offset, one) for offset, one in enumerate([base, near, far])])
        assert [answer.verdict for answer in answers] == [Verdict.UNIQUE, Verdict.DUPLICATE, Verdict.UNIQUE]
        assert answers[1].distance == distance_max
        assert at_once == answers


@examples(8)
@given(st.integers(0, 2**32), st.lists(st.tuples(st.integers(0, 59), st.integers(1, 30)), min_size=1, max_size=8))
def test_a_position_is_decided_once_in_whatever_overlapping_batches_it_comes(
    seed: int, windows: list[tuple[int, int]]
) -> None:
    rows = rows_of(seed, 60, 64)
    oracle = BruteForceIndex(3)
    generator = np.random.default_rng(seed)
    seen: set[Position] = set()
    with fresh(Parameters()) as index:
        for begin, length in [*windows, (0, 60)]:
            # Leave some rows out, so that later batches fill gaps between journaled ones.
            part = [row for row in rows[begin : begin + length] if length == 60 or generator.random() < 0.6]
            decisions = index.admit(entries_of(part, 64), ends_of(part))
            assert answers_of(decisions) == oracle.admit(entries_of(part, 64), ends_of(part))
            positions = [Position(row.source, row.offset) for row in part]
            assert decisions.replayed.tolist() == [position in seen for position in positions]
            assert (decisions.candidates[decisions.replayed] == 0).all()
            seen.update(positions)
        assert index.statistics().journal_rows == len(rows) == len(oracle.journal)


def test_without_the_journal_admitting_twice_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing(
        transaction: Transaction, stream: int, partition: int, offsets: np.ndarray, words: int
    ) -> JournaledDecisions:
        count = len(offsets)
        return JournaledDecisions(np.zeros(count, DECISION), np.zeros(count, np.bool_), {})

    monkeypatch.setattr(journal, "find", find_nothing)
    rows = rows_of(5, 50, 64)
    with opened(tmp_path) as index:
        first = admitted(index, rows)
        second = admitted(index, rows)
    assert Verdict.UNIQUE in [answer.verdict for answer in first]
    assert Verdict.UNIQUE not in [answer.verdict for answer in second]


def test_a_stream_id_that_cannot_be_a_key_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        for stream in ("", "s" * 512):
            with pytest.raises(ValueError, match="1 to 511 bytes"):
                index.begin(Source(stream, 0), "name", 0)
        index.begin(Source("s" * 511, 0), "name", 0)
        assert index.streams("name") == ["s" * 511]


def test_among_equally_near_ones_the_earliest_is_the_original(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        answers = admitted(index, [Row(0, 0b1111), Row(1, 0b1111 << 8), Row(2, 0b0011), Row(3, 0b0001_0000_0001)])
    assert [answer.verdict for answer in answers] == [*PAIRS[:1], *PAIRS[:1], *PAIRS[1:], Verdict.UNIQUE]
    assert (answers[2].original, answers[2].distance) == (0, 2)


def test_insert_unique_stops_a_chain(tmp_path: Path) -> None:
    chain = [Row(0, 0), Row(1, 0b111), Row(2, 0b111_111), Row(3, 0b111_111_111)]
    with opened(tmp_path) as index:
        answers = admitted(index, chain)
    assert [answer.verdict for answer in answers] == PAIRS * 2


def test_insert_root_follows_a_chain_as_long_as_it_stays_near_its_root(tmp_path: Path) -> None:
    chain = [Row(0, 0), Row(1, 0b111), Row(2, 0b111_111), Row(3, 0b111_111_111), Row(4, 0b111_111_111_111)]
    with opened(tmp_path, Parameters(insert="root", root=RootRule(8))) as index:
        answers = admitted(index, chain)
        entries = index.statistics().entries
    assert [answer.verdict for answer in answers] == [*PAIRS, Verdict.DUPLICATE, Verdict.UNIQUE, Verdict.DUPLICATE]
    assert [(answer.original, answer.distance) for answer in answers] == [(0, -1), (0, 3), (0, 6), (3, -1), (3, 3)]
    assert entries == 5


def test_a_duplicate_that_adds_nothing_to_its_match_does_not_enter(tmp_path: Path) -> None:
    rows = [Row(0, 0), Row(1, 0), Row(2, 0b1), Row(3, 0b111), Row(4, 0b111), Row(5, 0b1111_11)]
    with opened(tmp_path, Parameters(insert="root", root=RootRule(8, member_distance_min=1))) as index:
        answers = admitted(index, rows)
        assert [(answer.original, answer.distance) for answer in answers[1:]] == [
            (0, 0),
            (0, 1),
            (0, 3),
            (0, 3),
            (0, 6),
        ]
        assert [d.position.offset for d in index.documents(range(4)) if d] == [0, 3, 5]


@pytest.mark.parametrize("bits", [64, 128])
@examples(12)
@given(st.data())
def test_whatever_is_dropped_is_as_near_to_what_was_kept_as_the_root_rule_promises(
    bits: int, data: st.DataObject
) -> None:
    rows = rows_of(data.draw(st.integers(0, 2**32)), data.draw(st.integers(1, 200)), bits, centres=2, kinds=False)
    root = RootRule(data.draw(st.integers(3, 12)), data.draw(st.integers(0, 3)))
    with fresh(Parameters(bits, 3, "root", root=root)) as index:
        for begin in range(0, len(rows), 37):
            admitted(index, rows[begin : begin + 37])
        answers = admitted(index, rows)
    kept = {answer.original: row for answer, row in zip(answers, rows, strict=True) if answer.verdict == Verdict.UNIQUE}
    for answer, row in zip(answers, rows, strict=True):
        if answer.verdict == Verdict.DUPLICATE:
            distance = (row.fingerprint ^ kept[answer.original].fingerprint).bit_count()
            assert distance == answer.distance <= root.distance_max


def test_exact_and_near_documents_never_match_each_other(tmp_path: Path) -> None:
    rows = [Row(0, 7), Row(1, 7, kind=Kind.EXACT), Row(2, 7, kind=Kind.EXACT), Row(3, 6, kind=Kind.EXACT), Row(4, 6)]
    with opened(tmp_path) as index:
        answers = admitted(index, rows)
        statistics = index.statistics()
    assert [a.original for a in answers] == [0, 1, 1, 2, 0]
    assert [a.distance for a in answers] == [NO_DISTANCE, NO_DISTANCE, 0, NO_DISTANCE, 1]
    assert (statistics.entries, statistics.exact_entries, statistics.journal_rows) == (1, 2, 5)


def test_an_empty_batch_moves_applied_offsets_and_marks_forward_only(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        index.admit(entries_of([]), {ONE: 10, TWO: 5}, {ONE: b"ten"})
        index.admit(entries_of([]), {ONE: 9, TWO: 6}, {ONE: b"nine", TWO: b"six"})
        assert index.applied() == {ONE: Applied(10, b"ten"), TWO: Applied(6, b"six")}
        index.set_applied(ONE, 4, b"four")
        index.set_applied(TWO, 60)
        assert index.applied() == {ONE: Applied(10, b"ten"), TWO: Applied(60, b"")}
        index.admit(entries_of([]), {ONE: 10}, {})
        assert index.applied()[ONE] == Applied(10, b"ten")


def test_streams_are_found_by_name_oldest_first_and_keep_their_offsets(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        index.begin(Source("old-id", 0), "documents", 3)
        index.begin(Source("other-id", 0), "pages", 0)
        index.begin(Source("new-id", 0), "documents", 0)
        index.begin(Source("new-id", 1), "documents", 8)
        index.begin(Source("old-id", 0), "documents", 99)
        index.admit(entries_of([]), {Source("nameless", 0): 1})
    with opened(tmp_path, read_only=True) as index:
        assert index.streams("documents") == ["old-id", "new-id"]
        assert index.streams("unheard-of") == []
        assert index.stream_names() == {
            "old-id": "documents",
            "other-id": "pages",
            "new-id": "documents",
            "nameless": "",
        }
        assert {source: at.offset for source, at in index.applied().items()} == {
            Source("old-id", 0): 3,
            Source("other-id", 0): 0,
            Source("new-id", 0): 0,
            Source("new-id", 1): 8,
            Source("nameless", 0): 1,
        }


def test_a_query_gives_the_nearest_first_at_any_distance_and_enters_nothing(tmp_path: Path) -> None:
    with opened(tmp_path, Parameters(distance_max=1)) as index:
        admitted(
            index, [Row(0, 0b11, id="a"), Row(1, 0b1111_1111, id="b"), Row(2, 0b11_0000_0000, TWO, id="c", time_ms=-5)]
        )
        before = index.statistics()
        asked = fingerprints_of([0b111, 0], 64)
        near = index.query(asked, 7, limit=2)
        assert [[(m.document.id, m.distance) for m in matches] for matches in near] == [
            [("a", 1), ("b", 5)],
            [("a", 2), ("c", 2)],
        ]
        assert near[1][1].document.position == Position(TWO, 2)
        assert near[1][1].document.time_ms == -5
        assert index.query(asked) == [near[0][:1], []]
        assert index.query(np.empty((0, 1), np.uint64)) == []
        assert index.statistics() == before


def test_ids_of_any_length_and_any_characters_come_back(tmp_path: Path) -> None:
    ids = ["长" * 100_000, "\ud800 lone", "", "a\x00b"]
    rows = [Row(offset, 0xFF << offset * 16, id=id_) for offset, id_ in enumerate(ids)]
    with opened(tmp_path) as index:
        index.admit(replace(entries_of(rows), ids=ids), {})
        again = admitted(index, [Row(10 + row.offset, row.fingerprint) for row in rows])
        assert [document.id for document in index.documents([0, 1, 2, 3]) if document] == ids
    assert [answer.original_id for answer in again] == ids


def test_what_before_commit_raises_leaves_nothing_behind(tmp_path: Path) -> None:
    class Crash(Exception):
        pass

    armed = False

    def crash() -> None:
        if armed:
            raise Crash

    rows = rows_of(3, 80, 64)
    with opened(tmp_path, hooks=CommitHooks(before_commit=crash)) as index:
        admitted(index, rows[:40])
        before = (index.statistics(), index.applied(), index.stream_names())
        armed = True
        for change in (
            lambda: admitted(index, rows[40:]),
            lambda: index.begin(Source("new", 0), "new", 0),
            lambda: index.set_applied(ONE, 10_000),
        ):
            with pytest.raises(Crash):
                change()
            assert (index.statistics(), index.applied(), index.stream_names()) == before
        armed = False
        oracle = BruteForceIndex(3)
        oracle.admit(entries_of(rows[:40]), {})
        assert admitted(index, rows[40:]) == oracle.admit(entries_of(rows[40:]), {})


def test_what_after_commit_raises_is_decided_all_the_same(tmp_path: Path) -> None:
    class Crash(Exception):
        pass

    def crash() -> None:
        raise Crash

    rows = rows_of(4, 60, 64)
    with opened(tmp_path):
        pass
    with opened(tmp_path, hooks=CommitHooks(after_commit=crash)) as index, pytest.raises(Crash):
        admitted(index, rows)
    with opened(tmp_path) as index:
        decisions = index.admit(entries_of(rows), {})
    assert decisions.replayed.all()
    assert answers_of(decisions) == BruteForceIndex(3).admit(entries_of(rows), {})


def test_one_process_opens_a_directory_once(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with opened(tmp_path / "real") as index:
        for name in ("real", "link"):
            with pytest.raises(AlreadyOpenError, match="already open in this process"):
                opened(tmp_path / name)
        index.close()
        with opened(tmp_path / "link") as other:
            index.close()
            with pytest.raises(AlreadyOpenError):
                opened(tmp_path / "real")
            assert other.statistics().entries == 0


def test_an_index_opened_for_reading_reads_and_never_writes(tmp_path: Path) -> None:
    with pytest.raises(IndexMissingError, match=r"no index in .*: correct index\.directory"):
        opened(tmp_path / "none", read_only=True)
    assert not (tmp_path / "none").exists()
    rows = rows_of(2, 20, 128)
    with opened(tmp_path / "one", Parameters(128, 5, "unique", {"features": "words"})) as index:
        admitted(index, rows)
    with Index.open(tmp_path / "one", None, map_bytes_max=MAP_BYTES_MAX, read_only=True) as index:
        assert index.parameters == Parameters(128, 5, "unique", {"features": "words"})
        assert index.statistics().journal_rows == 20
        with pytest.raises(NeardupIndexError, match="for reading only"):
            admitted(index, rows)


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        ({"offsets": np.array([5, 5], np.uint64)}, "strictly increase"),
        ({"offsets": np.array([5, 4], np.uint64)}, "strictly increase"),
        ({"source_numbers": np.array([0, 1], np.uint32)}, "does not list"),
        ({"sources": (ONE, ONE)}, "twice"),
        ({"ids": ["one"]}, "differ in length"),
        ({"fingerprints": np.zeros((2, 2), np.uint64)}, "must be uint64"),
        ({"fingerprints": np.zeros((2, 1), np.int64)}, "must be uint64"),
    ],
)
def test_a_broken_batch_is_refused(broken: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    sound = entries_of([Row(4, 1), Row(5, 2)])
    with opened(tmp_path) as index, pytest.raises(ValueError, match=complaint):
        index.admit(replace(sound, **broken), {})


def test_candidates_are_counted_per_row(tmp_path: Path) -> None:
    with opened(tmp_path, Parameters(distance_max=0)) as index:
        first = index.admit(entries_of([Row(0, 1), Row(1, 2), Row(2, 1 << 63)]), {})
        second = index.admit(entries_of([Row(3, 3), Row(4, 1 << 62), Row(5, 9, kind=Kind.UNDECIDABLE)]), {})
    # What is compared shares the first 40 bits here, as 1, 2 and 3 do, and comes before.
    assert first.candidates.tolist() == [0, 1, 0]
    assert second.candidates.tolist() == [2, 0, 0]
    assert second.originals.tolist()[2] == NO_NUMBER
