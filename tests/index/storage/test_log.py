"""The log against the plain rows that were written into it."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.errors import IndexDamagedError
from index.storage import log
from index.storage.layout import LOG_KEY, Filing, Table
from tests.support.examples import examples
from tests.support.stores import stores
from tests.support.written_log import (
    LOOK_BYTES,
    RANDOMS,
    STREAMS,
    WORDS,
    LogRow,
    WrittenLog,
    delete,
    some_batches,
    written,
)


def array(numbers: set[int]) -> np.ndarray:
    return np.array(sorted(numbers), np.uint64)


def without(held: WrittenLog, gone: set[int]) -> dict[int, int]:
    """The batch of every document whose batch has not left the log."""
    return {number: each.batch for number, each in held.documents.items() if each.batch not in gone}


@examples(40)
@given(RANDOMS)
def test_batches_come_back_in_order_with_all_that_was_written(random: Random) -> None:
    batches = some_batches(random)
    with stores() as store:
        held = store.write(lambda transaction: written(transaction, batches))

        def compare(transaction: log.Transaction) -> None:
            walked = list(log.walk(transaction, WORDS))
            assert [batch.key for batch in walked] == held.keys[:-1]
            for place, (batch, rows) in enumerate(zip(walked, batches, strict=True)):
                documents = [each for each in held.documents.values() if each.batch == place]
                entered = [at for at, row in enumerate(rows) if row.filing is not Filing.NOTHING]
                duplicates = [at for at, row in enumerate(rows) if row.origin is not None]
                assert batch.entered().tolist() == entered
                assert batch.numbers().tolist() == [each.number for each in documents]
                assert (batch.first_number, batch.end_number) == (
                    LOG_KEY.unpack(held.keys[place])[0],
                    LOG_KEY.unpack(held.keys[place + 1])[0],
                )
                assert batch.fingerprints.tolist() == [each.fingerprint for each in documents]
                assert batch.ids(np.array(entered, np.int64)) == [rows[at].id for at in entered]
                assert batch.ids(np.array(entered[::-2], np.int64)) == [rows[at].id for at in entered[::-2]]
                assert batch.origins(np.array(duplicates, np.int64)) == [rows[at].origin for at in duplicates]
                named = batch.sources[batch.rows["source"]].tolist()
                assert named == [STREAMS[row.source] for row in rows]

        store.read(compare)


@examples(60)
@given(RANDOMS)
def test_documents_are_found_by_number_and_gaps_of_the_log_are_passed_over(random: Random) -> None:
    batches = some_batches(random)
    asked = {number for number in [*range(40), 2**64 - 1] if random.random() < 0.5}
    with stores() as store:
        held = store.write(lambda transaction: written(transaction, batches))
        gone = {place for place in range(len(batches)) if random.random() < 0.4}
        store.write(lambda transaction: delete(transaction, [held.keys[place] for place in gone]))
        expected = {number: batch for number, batch in without(held, gone).items() if number in asked}
        numbers = array(asked)

        def compare(transaction: log.Transaction) -> None:
            found: dict[int, int] = {}
            keys = []
            rows, sources, ids = [], [], []
            for batch, documents, places in log.holding(transaction, numbers, WORDS):
                of_documents = batch.entered()[documents]
                rows += batch.rows[["offset", "number", "verdict"]][of_documents].tolist()
                sources += batch.sources[batch.rows["source"][of_documents]].tolist()
                ids += batch.ids(of_documents)
                keys.append(batch.key)
                assert len(documents) == len(places) > 0
                assert batch.numbers()[documents].tolist() == numbers[places].tolist()
                found.update((number, held.keys.index(batch.key)) for number in numbers[places].tolist())
            assert found == expected
            assert keys == sorted(set(keys)), "every batch comes once, in order"
            at_once = log.documents(transaction, numbers, WORDS)
            there = [number in expected for number in numbers.tolist()]
            assert at_once.there.tolist() == there
            assert at_once.rows[["offset", "number", "verdict"]][at_once.there].tolist() == rows
            assert at_once.sources[at_once.there].tolist() == sources
            assert [id_ for id_, is_there in zip(at_once.ids, there, strict=True) if is_there] == ids
            for values, name, width in (
                (at_once.fingerprints, "fingerprint", WORDS),
                (at_once.looks(LOOK_BYTES), "look", LOOK_BYTES),
            ):
                assert values.tolist() == [
                    list(getattr(held.documents[number], name)) if number in expected else [0] * width
                    for number in numbers.tolist()
                ]
            # In any order, and as often as asked for.
            mixed = [random.randrange(len(numbers)) for _ in range(9 if len(numbers) else 0)]
            again = log.documents(transaction, numbers[mixed], WORDS)
            assert again.there.tolist() == at_once.there[mixed].tolist()
            assert again.rows[["offset", "number"]].tolist() == at_once.rows[mixed][["offset", "number"]].tolist()
            assert again.fingerprints.tolist() == at_once.fingerprints[mixed].tolist()
            assert again.looks(LOOK_BYTES).tolist() == at_once.looks(LOOK_BYTES)[mixed].tolist()
            assert again.ids == [at_once.ids[place] for place in mixed]

        store.read(compare)


@examples(40)
@given(RANDOMS, st.integers(0, 30))
def test_the_batches_since_a_number_leave_out_no_later_document_and_begin_late(random: Random, number: int) -> None:
    batches = some_batches(random)
    with stores() as store:
        held = store.write(lambda transaction: written(transaction, batches))
        keys = store.read(lambda transaction: [batch.key for batch in log.since(transaction, number, WORDS)])
    assert keys == held.keys[:-1][len(batches) - len(keys) :], "the last batches, in order"
    left_out = {place for place in range(len(batches)) if held.keys[place] not in keys}
    assert all(each.number < number for each in held.documents.values() if each.batch in left_out)
    # At most the first batch begins below the number.
    assert all(LOG_KEY.unpack(key)[0] >= number for key in keys[1:])


def test_a_copied_batch_stays_as_it_was_when_its_transaction_writes() -> None:
    with stores() as store:

        def overwrite(transaction: log.Transaction) -> list[str]:
            # LMDB changes a page where it stands once its transaction has written it, and other values move.
            held = written(transaction, [[LogRow(id="first"), LogRow(id="second")], [LogRow(id="later")]])
            batch = log.copied(transaction, held.keys[0], WORDS)
            delete(transaction, held.keys[:1])
            for number in range(60):
                transaction.put(Table.LOG, log.key_of(0, number), bytes([number]) * 500)
            return batch.ids(batch.entered())

        assert store.write(overwrite) == ["first", "second"]


def test_a_batch_that_is_not_there_is_damage() -> None:
    with stores() as store:
        for read in (log.read, log.copied):
            with pytest.raises(IndexDamagedError, match="table log lacks"):
                store.read(lambda transaction, r=read: r(transaction, log.key_of(3, 4), WORDS))  # type: ignore[misc]
