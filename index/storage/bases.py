"""Base sets as the index above them names them: numbers, streams, and the list of all that it has met.

A base set is another index that is open for reading below this one. A document of it has a number here:

    2^62 + 2^44 * place of the base in the list + number in the base

The list is "bases" in `meta`, and it only grows. So a number keeps its meaning whichever bases are open, and one of a
base that is not open counts as that of a document that is gone. A stream of a base is "base:<identity>:<stream>" here.
"""

import json
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.entry import Position, Source
from index.storage.layout import BASES_KEY, Table
from index.storage.store import Transaction

FIRST_NUMBER = 2**62
"""Least number of a document in any base set."""

BASES_MAX = 2**17
"""Most base sets that an index ever meets."""

_NUMBERS = 2**44
_PREFIX = "base:"

Numbers = npt.NDArray[np.uint64]


class BaseName(NamedTuple):
    """A base set that the index has met.

    name  of its folder, when it was last open

    >>> BaseName("6a7ab8be707cd0886a7ab8be707cd088", "last-year").name
    'last-year'
    """

    identity: str
    name: str


def names_of(transaction: Transaction) -> list[BaseName]:
    """All base sets that the index has met, by place."""
    return [BaseName(*each) for each in json.loads(transaction.get(Table.META, BASES_KEY) or b"[]")]


def with_names(met: Sequence[BaseName], opened: Sequence[BaseName]) -> list[BaseName]:
    """The list after these base sets were opened: new ones follow, and known ones have today's names.

    >>> with_names([BaseName("a", "one")], [BaseName("b", "two"), BaseName("a", "moved")])
    [BaseName(identity='a', name='moved'), BaseName(identity='b', name='two')]
    """
    names = {each.identity: each for each in met} | {each.identity: each for each in opened}
    return list(names.values())


def put_names(transaction: Transaction, names: Sequence[BaseName]) -> None:
    """Store the list."""
    transaction.put(Table.META, BASES_KEY, json.dumps(names).encode())


def first_number(place: int) -> int:
    """Number of the first document of the base at a place in the list.

    >>> first_number(1) - first_number(0) == 2**44
    True
    """
    if place >= BASES_MAX:
        raise ValueError(f"an index can meet {BASES_MAX} base sets at most")
    return FIRST_NUMBER + place * _NUMBERS


def are_in(first: int, numbers: Numbers) -> npt.NDArray[np.bool_]:
    """Whether numbers, uint64 [n], are those of the base whose first one this is: bool [n]."""
    return (numbers >= np.uint64(first)) & (numbers < np.uint64(first + _NUMBERS))


def are_own(numbers: Numbers) -> npt.NDArray[np.bool_]:
    """Whether numbers, uint64 [n], are those of the index itself, and of no base: bool [n].

    >>> are_own(np.array([7, first_number(0)], np.uint64))
    array([ True, False])
    """
    return numbers < np.uint64(FIRST_NUMBER)


def orders_of(numbers: Numbers) -> Numbers:
    """Numbers in an order in which base sets come before the index itself, uint64 [n]; its own inverse.

    >>> orders_of(np.array([7, first_number(0) + 9], np.uint64)).argsort()
    array([1, 0])
    """
    return numbers ^ np.uint64(FIRST_NUMBER)


def stream_above(identity: str, stream: str) -> str:
    """A base's stream as the index above names it."""
    return f"{_PREFIX}{identity}:{stream}"


def position_above(identity: str, position: Position) -> Position:
    """A position in a base as the index above names it.

    >>> position_above("6a7a", Position(Source("topic", 3), 17)).source.stream
    'base:6a7a:topic'
    """
    source = position.source
    return Position(Source(stream_above(identity, source.stream), source.partition), position.offset)


def base_of(stream: str) -> str | None:
    """Identity of the base that a stream belongs to; None for a stream of the index itself.

    >>> base_of("base:6a7a:topic"), base_of("topic")
    ('6a7a', None)
    """
    return stream.removeprefix(_PREFIX).partition(":")[0] if stream.startswith(_PREFIX) else None


def position_below(identity: str, position: Position | None) -> Position | None:
    """Undo `position_above`; None for a position that is not in this base.

    >>> position_below("6a7a", Position(Source("base:6a7a:topic", 3), 17)).source.stream
    'topic'
    """
    if position is None or base_of(position.source.stream) != identity:
        return None
    stream = position.source.stream.removeprefix(stream_above(identity, ""))
    return Position(Source(stream, position.source.partition), position.offset)
