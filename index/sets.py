"""Documents in the index and in the base sets below it, by number. Without bases each function reads the index alone.

`index.storage.bases` says how the index numbers what a base holds. A base's ids play no role: there they are "".
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from index.session import ReadSession, WriteSession
from index.storage import bases, documents, log, sources
from index.storage.bases import BaseName
from index.storage.documents import Document
from index.storage.log import Origin

GONE = np.uint64(2**63 - 1)
"""A root's number if no open set has it."""

Numbers = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]

_STREAMS_END = 2**32
"""Above the numbers of streams. A session that cannot register streams of bases numbers them from here downwards."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Documents from one set, among n that were asked for.

    places   int64 [m], which of the n
    first    number that the set's first document has in the index; 0 for the index itself
    numbers  uint64 [m], in the set itself
    """

    session: ReadSession
    name: BaseName | None
    first: int
    places: Places
    numbers: Numbers

    def raised(self, numbers: Numbers) -> Numbers:
        """Numbers in the set as the index has them. A base's own bases are not open below it."""
        if self.name is None:
            return numbers
        return np.where(bases.are_own(numbers), numbers + np.uint64(self.first), GONE)


def _parts(session: ReadSession, numbers: Numbers) -> Iterator[_Part]:
    """The index's part of numbers, uint64 [n], and those of its bases that have any."""
    places = np.flatnonzero(bases.are_own(numbers))
    yield _Part(session, None, 0, places, numbers[places])
    for base, below in session.bases:
        places = np.flatnonzero(bases.are_in(base.first, numbers))
        if len(places):
            yield _Part(below, base.name, base.first, places, numbers[places] - np.uint64(base.first))


class StoredDocuments:
    """Columns of n documents by number, from several sets, as in `log.Documents`; roots in `rows` are the index's numbers.

    >>> opened.read(lambda session: StoredDocuments(session, np.array([7, 2**62], np.uint64)).there)
    array([False, False])
    """

    def __init__(self, session: ReadSession, numbers: Numbers) -> None:
        """Use `stored`."""
        self._count = len(numbers)
        self._parts = [
            (each, log.documents(each.session.transaction, each.numbers, session.words))
            for each in _parts(session, numbers)
        ]
        self.there: npt.NDArray[np.bool_] = self._spread(lambda each: each.there)
        self.rows: npt.NDArray[np.void] = self._spread(lambda each: each.rows)
        for part, _ in self._parts:
            roots = self.rows["number"][part.places].astype(np.uint64)
            self.rows["number"][part.places] = part.raised(roots)

    def _spread(self, column_of: Callable[[log.Documents], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        columns = [column_of(each) for _, each in self._parts]
        whole = np.zeros((self._count, *columns[0].shape[1:]), columns[0].dtype)
        for (part, _), column in zip(self._parts, columns, strict=True):
            whole[part.places] = column
        return whole

    @property
    def fingerprints(self) -> Numbers:
        """uint64 [n, words]."""
        return self._spread(lambda each: each.fingerprints)

    def looks(self, look_bytes: int) -> npt.NDArray[np.uint8]:
        """uint8 [n, look_bytes]."""
        return self._spread(lambda each: each.looks(look_bytes))

    @property
    def ids(self) -> list[str]:
        """Each document's id; "" for one in a base."""
        ids = [""] * self._count
        for part, each in self._parts:
            if part.name is None:
                for place, id_ in zip(part.places.tolist(), each.ids, strict=True):
                    ids[place] = id_
        return ids


Stored = log.Documents | StoredDocuments


def stored(session: ReadSession, numbers: Numbers) -> Stored:
    """Documents with these numbers, uint64 [n], in any order."""
    if not session.bases:
        return log.documents(session.transaction, numbers, session.words)
    return StoredDocuments(session, numbers)


def visible(session: ReadSession, numbers: Numbers) -> npt.NDArray[np.bool_]:
    """Whether each document, uint64 [n], still counts in its set: bool [n]; never in a base that is not open."""
    if not session.bases:
        return session.visibility.visible(numbers) & bases.are_own(numbers)
    are_visible = np.zeros(len(numbers), np.bool_)
    for part in _parts(session, numbers):
        are_visible[part.places] = part.session.visibility.visible(part.numbers)
    return are_visible


def orders(session: ReadSession, numbers: Numbers) -> Numbers:
    """Numbers in the order in which documents stand: those in bases come before the index's own; its own inverse."""
    return bases.orders_of(numbers) if session.bases else numbers


def origins(session: ReadSession, numbers: Numbers) -> dict[int, Origin]:
    """Documents, uint64 [n], as originals of duplicates. Registers a base's streams, if the session writes."""
    if not session.bases:
        return documents.origins(session.transaction, numbers, session.words)
    found: dict[int, Origin] = {}
    for part in _parts(session, numbers):
        there = documents.origins(part.session.transaction, part.numbers, session.words)
        if part.name is not None:
            there = _above(session, part, part.name, there)
        found.update(there)
    return found


def _above(session: ReadSession, part: _Part, name: BaseName, there: dict[int, Origin]) -> dict[int, Origin]:
    """Origins in a base, by number in the base, as the index names them."""
    names = _names_above(part.session, name)
    streams = sources.streams_of(part.session.transaction, (origin.stream for origin in there.values()))
    numbers = {
        number: _stream_number(session, above, names[above])
        for number, stream in streams.items()
        for above in [bases.stream_above(name, stream)]
    }
    return {number + part.first: origin._replace(stream=numbers[origin.stream]) for number, origin in there.items()}


def _names_above(below: ReadSession, base: BaseName) -> dict[str, str]:
    """A base's streams with their names, as the index above has both: a name begins with the set's, as other files may
    have it too."""
    named = sources.named_streams(below.transaction)
    return {bases.stream_above(base, stream): f"{base.name}:{name or stream}" for stream, name in named}


def stream_names(session: ReadSession) -> dict[str, str]:
    """Name of every stream of the index, oldest first, and in its open bases."""
    names = dict(sources.named_streams(session.transaction))
    for base, below in session.bases:
        names = _names_above(below, base.name) | names
    return names


def _stream_number(session: ReadSession, stream: str, name: str) -> int:
    number = sources.known_number(session.transaction, stream)
    if number is None and isinstance(session, WriteSession):
        sources.set_name(session.transaction, stream, name)
        number = sources.number_of(session.transaction, stream)
    if number is None:
        number = _STREAMS_END - 1 - len(session.streams_of_bases)
    session.streams_of_bases[number] = stream
    return number


def read(session: ReadSession, numbers: Numbers) -> dict[int, Document]:
    """Documents for numbers uint64 [n], as `documents.read`."""
    if not session.bases:
        return documents.read(session.transaction, numbers, session.words)
    found: dict[int, Document] = {}
    for part in _parts(session, numbers):
        for number, document in documents.read(part.session.transaction, part.numbers, session.words).items():
            if part.name is not None:
                (root,) = part.raised(np.array([document.root], np.uint64)).tolist()
                position = bases.position_above(part.name, document.position)
                document = document._replace(number=number + part.first, root=root, position=position)
            found[document.number] = document
    return found


def are_named(session: ReadSession, numbers: Numbers) -> npt.NDArray[np.bool_]:
    """Whether each number, uint64 [n], names a document in a base that the index has met: bool [n]."""
    met = len(bases.met(session.transaction))
    return ~bases.are_own(numbers) & (numbers < np.uint64(bases.first_number(met)))
