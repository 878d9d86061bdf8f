import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.decide import decide, gather
from index.decide.gather import Gathered
from index.entry import Kind, Verdict
from index.index import Index
from index.matching.root import RootRule
from index.matching.second_look import CosineLook, MetadataLook
from index.session import Retention
from index.storage import log
from index.storage.codec import pack_batch
from index.storage.layout import Table
from index.storage.parameters import Parameters
from index.storage.store import Transaction
from index.tools import Importer, portions
from tests.support.answers import answers_of
from tests.support.brute_force_index import Answer, BruteForceIndex
from tests.support.entries import Row, ends_of, entries_of
from tests.support.examples import examples
from tests.support.indexes import SMALL, all_records, changed, everything, filled, opened, wrong
from tests.support.looks import LOOKS, brute_force_look, looked_at_rows, parameters_with
from tests.support.roots import root_rules, with_insert

COSINE = CosineLook(2, 0.9)
EAST, NORTH = b"\x40\x00", b"\x00\x40"


def admitted(index: Index, rows: list[Row]) -> list[Answer]:
    return answers_of(index.admit(entries_of(rows, index.parameters.bits), ends_of(rows)))


@pytest.mark.parametrize("kind", LOOKS)
@pytest.mark.parametrize("insert", ["unique", "root"])
@examples(20)
@given(st.data())
def test_a_second_look_decides_as_brute_force_does_with_forgotten_and_expired_documents(
    kind: str, insert: Any, data: st.DataObject
) -> None:
    look, bits = LOOKS[kind], data.draw(st.sampled_from([64, 128]))
    parameters = parameters_with(look, bits)
    root = root_rules(insert, parameters.distance_max, data)
    parameters = replace(parameters, insert=insert, root=root)
    seed = data.draw(st.integers(0, 2**32))
    generator = np.random.default_rng(seed)
    rows = looked_at_rows(seed, data.draw(st.integers(1, 160)), look, bits)
    entries_max = data.draw(st.sampled_from([None, None, 20]))
    second_look = brute_force_look(look)
    oracle = BruteForceIndex(parameters.distance_max, entries_max, second_look=second_look, root=root)
    looser = CosineLook(12, 0.3) if isinstance(look, CosineLook) else MetadataLook(10, 0.9, 0.22)
    made_with = replace(
        parameters_with(looser, bits, 6), insert=insert, root=root and RootRule(30, root.member_distance_min)
    )
    with tempfile.TemporaryDirectory() as name:
        if data.draw(st.booleans()):
            # Decides by stricter thresholds than those that it was made with.
            opened(Path(name), made_with).close()
        begin = 0
        while begin < len(rows):
            with opened(Path(name), parameters, sizes=SMALL, retention=Retention(entries_max)) as index:
                for _ in range(int(generator.integers(1, 6))):
                    part = rows[begin : begin + int(generator.integers(1, 50))]
                    if not part:
                        break
                    assert admitted(index, part) == oracle.admit(entries_of(part, bits), ends_of(part))
                    begin += len(part)
                    if generator.random() < 0.3:
                        ids = {rows[int(generator.integers(begin))].id for _ in range(2)}
                        assert [document.id for document in index.forget(ids)] == oracle.forget(ids)
        assert wrong(Path(name)) == {}


@pytest.mark.parametrize("kind", LOOKS)
def test_the_rows_of_the_property_test_are_decided_otherwise_without_a_second_look(kind: str) -> None:
    look, differing = LOOKS[kind], 0
    for seed in range(3):
        rows = looked_at_rows(seed, 120, look)
        reach = parameters_with(look).distance_max
        plain = BruteForceIndex(reach)
        looking = BruteForceIndex(reach, second_look=brute_force_look(look))
        one, other = (oracle.admit(entries_of(rows), {}) for oracle in (plain, looking))
        differing += sum(a.original_id != b.original_id for a, b in zip(one, other, strict=True))
    assert differing > 10


@pytest.mark.parametrize("at_once", [True, False])
def test_an_equal_fingerprint_with_another_look_does_not_hide_behind_the_first(at_once: bool, tmp_path: Path) -> None:
    rows = [
        Row(0, 5, look=EAST),
        Row(1, 5, look=NORTH),
        Row(2, 5, look=NORTH),
        Row(3, 4, look=NORTH),
        Row(4, 5, look=EAST),
    ]
    with opened(tmp_path, Parameters(look=COSINE)) as index:
        answers = admitted(index, rows) if at_once else [admitted(index, [row])[0] for row in rows]
        assert [(answer.verdict, answer.original, answer.distance) for answer in answers] == [
            (Verdict.UNIQUE, 0, -1),
            (Verdict.UNIQUE, 1, -1),
            (Verdict.DUPLICATE, 1, 0),
            (Verdict.DUPLICATE, 1, 1),
            (Verdict.DUPLICATE, 0, 0),
        ]
        assert index.statistics().entries == 2
        # The second takes the place of the first, and is found as before.
        index.forget(["stream-one/0/0"])
        later = admitted(index, [Row(10, 5, look=NORTH), Row(11, 5, look=EAST)])
    assert [(answer.verdict, answer.original) for answer in later] == [(Verdict.DUPLICATE, 1), (Verdict.UNIQUE, 2)]
    assert wrong(tmp_path) == {}


def test_of_many_equal_fingerprints_the_earliest_that_counts_is_found_however_far_back_and_no_other_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gathered: list[int] = []

    def counted(*arguments: Any) -> Gathered:
        found = gather.gather(*arguments)
        gathered.append(len(found.numbers))
        return found

    monkeypatch.setattr(decide, "gather", counted)
    monkeypatch.setattr(gather, "LOOKS_AT_ONCE", 50)
    generator = np.random.default_rng(4)
    # No two of these are alike: each has one cell of its own.
    looks = (64 * np.eye(200, dtype=np.uint8))[generator.permutation(200)]
    with opened(tmp_path, Parameters(look=CosineLook(200, 0.9))) as index:
        unique = admitted(index, [Row(at, 7, look=look.tobytes()) for at, look in enumerate(looks)])
        assert {answer.verdict for answer in unique} == {Verdict.UNIQUE}
        asked = generator.integers(0, 200, 60).tolist()
        answers = admitted(index, [Row(1_000 + at, 6, look=looks[each].tobytes()) for at, each in enumerate(asked)])
    assert [answer.original for answer in answers] == asked
    assert sum(gathered) == len(asked)


def test_with_metadata_the_most_similar_counts_before_the_nearest_and_equals_by_their_order(tmp_path: Path) -> None:
    look = MetadataLook(8, 0.9, 0.25)
    mine, other = bytes([5] * 8), bytes([9] * 8)
    rows = [Row(0, 0b111, look=mine), Row(1, 0b11 << 20, look=other), Row(2, 0b111, look=other), Row(3, 0, look=mine)]
    with opened(tmp_path, Parameters(64, 5, look=look)) as index:
        answers = admitted(index, rows)
    # At 3 bits with the same metadata: .325; at 2 bits with others: .3. Row 2 is 5 bits from row 1: .25.
    assert [answer.verdict for answer in answers] == [
        Verdict.UNIQUE,
        Verdict.UNIQUE,
        Verdict.DUPLICATE,
        Verdict.DUPLICATE,
    ]
    assert [(answer.original, answer.distance) for answer in answers[2:]] == [(0, 1_000), (0, 6_750)]


@pytest.mark.parametrize("kind", LOOKS)
@pytest.mark.parametrize("insert", ["unique", "root"])
@examples(6)
@given(seed=st.integers(0, 2**32), rows_max=st.integers(1, 60))
def test_an_index_with_a_second_look_is_taken_over_and_restored_as_it_was(
    kind: str, insert: Any, seed: int, rows_max: int
) -> None:
    look = LOOKS[kind]
    parameters, rows = with_insert(parameters_with(look), insert), looked_at_rows(seed, 90, look)
    following = [row._replace(offset=row.offset + 1_000) for row in looked_at_rows(seed, 90, look)]
    with tempfile.TemporaryDirectory() as name:
        first, second, third = (Path(name) / each for each in ("first", "second", "third"))
        filled(first, rows, parameters, sizes=SMALL)
        with opened(first, parameters, sizes=SMALL) as index:
            decisions = index.admit(entries_of(rows), {})
            expected, found, names = everything(index), all_records(index), index.stream_names()
            applied = index.applied()
        with opened(second, parameters, sizes=SMALL) as index:
            taking = Importer(index)
            taking.begin(list(names.items()))
            for portion in portions(iter(found), rows_max):
                taking.add(portion)
            taking.finish(applied)
            assert everything(index) == expected
        unique = decisions.verdicts != Verdict.DUPLICATE
        verdicts = np.where(unique, Verdict.UNIQUE, Verdict.DUPLICATE).astype(np.uint8)
        with opened(third, parameters, sizes=SMALL) as index:
            for start in range(0, len(rows), rows_max):
                part = slice(start, start + rows_max)
                index.restore(entries_of(rows[part]), verdicts[part], decisions.original_positions[part])
            again = index.admit(entries_of(rows), {})
            assert again.replayed.all()
            if insert == "unique":
                assert answers_of(again) == answers_of(decisions)
        answers = []
        for directory in (first, second, third):
            with opened(directory, parameters, sizes=SMALL) as index:
                answers.append(admitted(index, following))
            assert wrong(directory) == {}
    assert answers[0] == answers[1]
    assert [answer.original for answer in answers[0]] == [answer.original for answer in answers[2]]


def test_a_batch_without_the_looks_that_the_index_asks_for_is_refused(tmp_path: Path) -> None:
    batch = entries_of([Row(0, 5, look=EAST)])
    with opened(tmp_path, Parameters(look=COSINE)) as index:
        for looks in (None, np.zeros((1, 3), np.uint8), np.zeros((2, 2), np.uint8), np.zeros((1, 2), np.int8)):
            with pytest.raises(ValueError, match=r"looks must be uint8 \[1, 2\]"):
                index.admit(replace(batch, looks=looks), {})
            with pytest.raises(ValueError, match="looks must be"):
                index.restore(replace(batch, looks=looks), np.array([Verdict.UNIQUE]), [None])


def test_a_batch_with_looks_that_the_index_does_not_ask_for_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as index, pytest.raises(ValueError, match=r"looks must be uint8 \[1, 0\]"):
        index.admit(entries_of([Row(0, 5, look=EAST)]), {})


def test_exact_documents_are_decided_without_a_second_look(tmp_path: Path) -> None:
    rows = [Row(0, 5, kind=Kind.EXACT, look=EAST), Row(1, 5, kind=Kind.EXACT, look=NORTH)]
    with opened(tmp_path, Parameters(look=COSINE)) as index:
        answers = admitted(index, rows)
    assert [answer.verdict for answer in answers] == [Verdict.UNIQUE, Verdict.DUPLICATE]


def test_a_query_tells_bits_whatever_a_second_look_says(tmp_path: Path) -> None:
    with opened(tmp_path, Parameters(look=COSINE)) as index:
        admitted(index, [Row(0, 5, look=EAST), Row(1, 5, look=NORTH)])
        (found,) = index.query(np.array([[4]], np.uint64))
    assert [(match.document.number, match.distance, match.document.look) for match in found] == [
        (0, 1, EAST),
        (1, 1, NORTH),
    ]


def test_verification_notices_looks_of_another_length(tmp_path: Path) -> None:
    parameters, rows = Parameters(look=COSINE), [Row(0, 5, look=EAST), Row(1, 5 << 30, look=NORTH)]
    filled(tmp_path, rows, parameters)
    assert wrong(tmp_path) == {}

    def lengthen(transaction: Transaction) -> None:
        (batch,) = [log.copied(transaction, key, 1) for key, _ in transaction.walk(Table.LOG)]
        lines = batch.lines
        ids = [bytes(lines.ids)[:9].decode(), bytes(lines.ids)[9:].decode()]
        longer = np.zeros((2, 3), np.uint8)
        value = pack_batch(
            lines.sources, lines.rows.copy(), lines.fingerprints, ids, lines.originals.copy(), [], longer
        )
        transaction.put(Table.LOG, batch.key, value)

    with opened(tmp_path, parameters) as index:
        changed(index, lengthen)
    found = wrong(tmp_path)
    assert [len(examples) for examples in found.values()] == [1]
    assert "are not as long as those of the index" in next(iter(found.values()))[0]
