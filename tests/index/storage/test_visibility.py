"""Visibility against the definition: row by row, by the source and the batch that a document came with."""

from random import Random
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.storage import log
from index.storage import visibility as visibility_module
from index.storage.layout import (
    HORIZON_KEY,
    LOG_KEY,
    LOG_KEY_BEGIN,
    SOURCE_HORIZON,
    Horizon,
    Table,
    pack_horizon,
    pack_numbers,
)
from index.storage.store import Transaction
from index.storage.visibility import Visibility
from tests.support.examples import examples
from tests.support.stores import stores
from tests.support.written_log import RANDOMS, STREAMS, WORDS, LogRow, WrittenLog, delete, some_batches, written


class Retired(NamedTuple):
    """What has left: entries below a number; of a source those before a batch; and some one by one."""

    below: int
    batches: dict[int, int]
    one_by_one: set[int]


NOTHING = Retired(0, {}, set())


def some_retired(random: Random) -> Retired:
    return Retired(
        random.choice([0, random.randrange(25)]),
        {source: random.randrange(9) for source in range(3) if random.random() < 0.7},
        {random.randrange(30) for _ in range(random.randrange(5))},
    )


def put(transaction: Transaction, held: WrittenLog, retired: Retired) -> None:
    keys = {
        source: LOG_KEY.unpack(held.keys[min(place, len(held.batches))]) for source, place in retired.batches.items()
    }
    sources = np.array([(*STREAMS[source], *key) for source, key in keys.items()], SOURCE_HORIZON)
    transaction.put(Table.META, HORIZON_KEY, pack_horizon(Horizon(retired.below, LOG_KEY_BEGIN, sources)))
    for number in pack_numbers(np.array(sorted(retired.one_by_one), np.uint64)):
        transaction.put(Table.RETIRED, number, b"")


def has_expired(held: WrittenLog, retired: Retired, number: int) -> bool:
    document = held.documents[number]
    return number < retired.below or document.batch < retired.batches.get(document.row.source, 0)


def visible(transaction: Transaction, numbers: list[int]) -> list[bool]:
    visibility = Visibility(transaction, WORDS)
    return visibility.visible(np.array(numbers, np.uint64)).tolist()


@examples(80)
@given(RANDOMS)
def test_an_entry_is_visible_until_it_expires_or_is_retired_whatever_has_left_the_log(random: Random) -> None:
    batches, retired = some_batches(random), some_retired(random)
    with stores() as store:
        held = store.write(lambda transaction: written(transaction, batches))
        store.write(lambda transaction: put(transaction, held, retired))
        numbers = [*held.documents, *held.documents]
        random.shuffle(numbers)
        expected = [not has_expired(held, retired, number) and number not in retired.one_by_one for number in numbers]
        assert store.read(lambda transaction: visible(transaction, numbers)) == expected
        gone = [
            held.keys[place]
            for place in range(len(batches))
            if all(has_expired(held, retired, each.number) for each in held.documents.values() if each.batch == place)
        ]
        store.write(lambda transaction: delete(transaction, gone))
        assert store.read(lambda transaction: visible(transaction, numbers)) == expected


@examples(80)
@given(RANDOMS)
def test_a_batch_is_told_as_expired_when_all_its_rows_have_and_never_before(random: Random) -> None:
    batches, retired = some_batches(random), some_retired(random)
    with stores() as store:
        held = store.write(lambda transaction: written(transaction, batches))
        store.write(lambda transaction: put(transaction, held, retired))

        def told_of(transaction: Transaction) -> dict[bytes, bool]:
            walked = log.walk(transaction, WORDS)
            return {batch.key: told for batch, told in Visibility(transaction, WORDS).expired(walked)}

        told = store.read(told_of)
    assert list(told) == held.keys[: len(told)], "a beginning of the log"
    for place, rows in enumerate(batches):
        key = held.keys[place]
        numbers = [each.number for each in held.documents.values() if each.batch == place]
        by_number = LOG_KEY.unpack(held.keys[place + 1])[0] <= retired.below
        by_source = all(place < retired.batches.get(row.source, 0) for row in rows)
        if told.get(key, False):
            assert by_number or by_source
            assert all(has_expired(held, retired, number) for number in numbers)
        if numbers and (by_number or by_source):
            assert told[key]


@examples(30)
@given(
    st.sets(st.integers(0, 20)), st.sets(st.integers(0, 20)), st.sampled_from([0, 3, 4_096]), st.sampled_from([0, 64])
)
def test_what_a_transaction_retires_is_invisible_in_it_from_then_on_however_many_there_are(
    before: set[int], now: set[int], known_max: int, apart_max: int
) -> None:
    numbers = np.arange(21, dtype=np.uint64)
    with stores() as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr(visibility_module, "RETIRED_KNOWN_MAX", known_max)
        patch.setattr(visibility_module, "_APART_MAX", apart_max)
        held = store.write(lambda transaction: written(transaction, [[LogRow()] * 21]))
        store.write(lambda transaction: put(transaction, held, NOTHING._replace(one_by_one=before)))

        def retire(transaction: Transaction) -> tuple[list[bool], list[bool]]:
            visibility = Visibility(transaction, WORDS)
            visibility.note_retired(np.array(sorted(now), np.uint64))
            return visibility.visible(numbers).tolist(), visibility.are_retired(numbers).tolist()

        still_visible, are_retired = store.write(retire)
    assert still_visible == [number not in before | now for number in range(21)]
    assert are_retired == [number in before | now for number in range(21)]


def test_a_horizon_of_any_kind_says_that_some_have_expired() -> None:
    with stores() as store:
        held = store.write(lambda transaction: written(transaction, [[LogRow()], [LogRow()]]))
        for retired, expected in (
            (NOTHING, False),
            (NOTHING._replace(below=1), True),
            (NOTHING._replace(batches={0: 1}), True),
            (NOTHING._replace(one_by_one={1}), False),
        ):
            store.write(lambda transaction, each=retired: put(transaction, held, each))  # type: ignore[misc]
            found = store.read(lambda transaction: Visibility(transaction, WORDS))
            assert found.some_have_expired == expected
