"""Base sets as the index above them names them: numbers, streams, and the list of all that it has met.

A base set is another index that is open for reading below this one. Its documents have numbers here:

    2^62 + 2^44 * place of the base in the list + number in the base

The list is "bases" in `meta`, and it only grows. So a number keeps its meaning whichever bases are open, and one in a
base that is not open counts as a document that is gone. A stream of a base is
"base:<identity>/<name of its folder>:<stream>" here, so each decision says which set it named.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from index.entry import Position, Source
from index.storage.layout import BASES_KEY, Table

if TYPE_CHECKING:
    # A supervisor imports this module, and leaves compiled code to its workers.
    from index.storage.store import Transaction

FIRST_NUMBER = 2**62
"""Least number that a document in a base set has."""

BASES_MAX = 2**17
"""Most base sets that an index ever meets."""

_NUMBERS = 2**44
_PREFIX = "base:"

Numbers = npt.NDArray[np.uint64]


class BaseName(NamedTuple):
    """A base set, as streams name it.

    name  of its folder, without colons

    >>> BaseName("6a7ab8be707cd0886a7ab8be707cd088", "last-year").name
    'last-year'
    """

    identity: str
    name: str


def met(transaction: "Transaction") -> list[str]:
    """Identities of all base sets that the index has met, by place."""
    identities: list[str] = json.loads(transaction.get(Table.META, BASES_KEY) or b"[]")
    return identities


def meet(transaction: "Transaction", identities: Sequence[str]) -> None:
    """Add those of these base sets that are new."""
    transaction.put(Table.META, BASES_KEY, json.dumps([*dict.fromkeys([*met(transaction), *identities])]).encode())


def first_number(place: int) -> int:
    """Number for the first document in the base at a place in the list.

    >>> first_number(1) - first_number(0) == 2**44
    True
    """
    if place >= BASES_MAX:
        raise ValueError(f"an index can meet {BASES_MAX} base sets at most")
    return FIRST_NUMBER + place * _NUMBERS


def are_in(first: int, numbers: Numbers) -> npt.NDArray[np.bool_]:
    """Whether numbers, uint64 [n], belong to the base whose first one this is: bool [n]."""
    return (numbers >= np.uint64(first)) & (numbers < np.uint64(first + _NUMBERS))


def are_own(numbers: Numbers) -> npt.NDArray[np.bool_]:
    """Whether numbers, uint64 [n], belong to the index itself, and to no base: bool [n].

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


def stream_above(base: BaseName, stream: str) -> str:
    """A base's stream as the index above names it."""
    return f"{_PREFIX}{base.identity}/{base.name.replace(':', '_')}:{stream}"


def position_above(base: BaseName, position: Position) -> Position:
    """A position in a base as the index above names it.

    >>> position_above(BaseName("6a7a", "last-year"), Position(Source("topic", 3), 17)).source.stream
    'base:6a7a/last-year:topic'
    """
    source = position.source
    return Position(Source(stream_above(base, source.stream), source.partition), position.offset)


def base_of(stream: str) -> BaseName | None:
    """The base set that a stream belongs to, as it was named at the decision; None for a stream of the index itself.

    >>> base_of("base:6a7a/last-year:topic"), base_of("topic")
    (BaseName(identity='6a7a', name='last-year'), None)
    """
    if not stream.startswith(_PREFIX):
        return None
    identity, _, name = stream.removeprefix(_PREFIX).partition(":")[0].partition("/")
    return BaseName(identity, name)


def position_below(identity: str, position: Position | None) -> Position | None:
    """Undo `position_above`; None for a position that is not in this base.

    >>> position_below("6a7a", Position(Source("base:6a7a/last-year:topic", 3), 17)).source.stream
    'topic'
    """
    base = None if position is None else base_of(position.source.stream)
    if position is None or base is None or base.identity != identity:
        return None
    stream = position.source.stream.removeprefix(stream_above(base, ""))
    return Position(Source(stream, position.source.partition), position.offset)
