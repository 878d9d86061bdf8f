"""Versions of a document: what the log knows about earlier records with its id.

An id belongs to one document on one host; an unknown host counts as a host of its own. A version counts until its row
expires, or the document that it was or duplicated. So a record dropped as a copy of another document is a version too.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import eq
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index import sets
from index.entry import NO_NUMBER, Entries, Kind, standing_for_themselves
from index.kernels.versions import STRANGERS_MAX
from index.lsm.id_table import Hits
from index.session import ReadSession
from index.storage import log
from index.versions.by_id import ROWS_OF_ID_MAX

Key = tuple[str, int]
"""Id of a document and its host's digest."""


class Version(NamedTuple):
    """One record of a document.

    number     the document that it is or duplicated
    text       its text's digest
    substance  its substance's digest
    returns    how often the document had returned to an earlier substance
    strangers  how often in a row its text had nothing in common with the one before
    offset     the record's offset
    source     its stream, by number, and partition
    visible    whether document `number` counts
    own        whether that document is an original with this key, visible or not
    delivered  digests of that document's text and substance

    >>> digests = {"text": 1, "substance": 2, "delivered": (1, 2)}
    >>> Version(number=7, returns=0, strangers=0, offset=5, source=(0, 0), visible=True, own=False, **digests).is_current
    False
    """

    number: int
    text: int
    substance: int
    returns: int
    strangers: int
    offset: int
    source: tuple[int, int]
    visible: bool
    own: bool
    delivered: tuple[int, int]

    @property
    def is_current(self) -> bool:
        """Whether its document was delivered for this key and still counts."""
        return self.visible and self.own


class History(NamedTuple):
    """A document's versions.

    last        the last one
    current     the last one that is current
    substances  of all
    strangers   those of the last one; if the id is known to be shared, the most of all: restored ones may lack theirs

    >>> first = Version(7, 1, 2, 0, 0, 5, (0, 0), visible=True, own=True, delivered=(1, 2))
    >>> History(first, current=first, substances={2}, strangers=0).current.number
    7
    """

    last: Version
    current: Version | None
    substances: Collection[int]
    strangers: int


def newest_versions(session: ReadSession, keys: Sequence[Key]) -> tuple[list[History | None], npt.NDArray[np.bool_]]:
    """Each document's last version alone, if the last row with its id is one; and whether there is such a row, bool [k]."""
    found = session.ids.newest(session.transaction, [id_ for id_, _ in keys])
    there = np.zeros(len(keys), np.bool_)
    there[found.asked] = True
    return _histories(session, keys, found), there


def latest_versions(session: ReadSession, keys: Sequence[Key]) -> list[History | None]:
    """Each document's versions among the last ROWS_OF_ID_MAX rows with its id, if any."""
    return _histories(session, keys, session.ids.latest(session.transaction, [id_ for id_, _ in keys], ROWS_OF_ID_MAX))


@dataclass(frozen=True, slots=True)
class Versions:
    """Older versions of n rows.

    keys_of_rows  int64 [n], each row's key, by place in `keys`; -1 without a usable id
    keys          distinct
    known         each key's versions: all that count, or only the last where that decides; None without one

    >>> versions = Versions(np.array([0, -1]), keys=[("a", 9)], known=[None])
    >>> [versions.keys[key] for key in versions.keys_of_rows.tolist() if key >= 0]
    [('a', 9)]
    """

    keys_of_rows: npt.NDArray[np.int64]
    keys: list[Key]
    known: list[History | None]

    def numbers(self) -> npt.NDArray[np.uint64]:
        """Numbers of the documents that are the last or current versions, uint64 [m]."""
        versions = [each for history in self.known if history is not None for each in history[:2] if each is not None]
        return np.array([version.number for version in versions], np.uint64)

    def former(self, row: int, origin: int) -> tuple[str, int, int, int] | int:
        """The version that an update without a current version names: a row of the batch, or an earlier record."""
        if origin >= 0:
            return origin
        key = int(self.keys_of_rows[row])
        history = self.known[key]
        assert history is not None, "an update has an earlier version"
        return self.keys[key][0], *history.last.source, history.last.offset


def versions_of(session: ReadSession, entries: Entries) -> Versions | None:
    """Older versions of the rows; None if ids make no difference: by policy, or if no id is known or repeats."""
    if session.opened.recrawl.policy == "duplicate":
        return None
    is_decided = entries.kinds <= Kind.EXACT
    if entries.named is not None:
        is_decided &= entries.named
    is_decided &= np.fromiter(map(bool, entries.ids), np.bool_, len(entries))
    rows = np.flatnonzero(is_decided)
    ids = map(entries.ids.__getitem__, rows.tolist())
    keys_by_row: list[Key] = list(zip(ids, log.host_digests(entries)[rows].tolist(), strict=True))
    keys = list(dict.fromkeys(keys_by_row))
    places = dict(zip(keys, range(len(keys)), strict=True)) if len(keys) < len(rows) else None
    keys_of_rows = np.full(len(entries), -1, np.int64)
    keys_of_rows[rows] = np.arange(len(rows)) if places is None else list(map(places.__getitem__, keys_by_row))
    newest, there = newest_versions(session, keys)
    if len(keys) == len(rows) and not any(newest):
        # The id may be known, but on another host.
        others = np.flatnonzero(there).tolist()
        if not others or not any(latest_versions(session, [keys[place] for place in others])):
            return None
    assert entries.digests is not None
    differs = np.zeros(len(keys), np.bool_)
    for row, text, substance in zip(rows.tolist(), *entries.digests[rows].T.tolist(), strict=True):
        key = keys_of_rows[row]
        differs[key] |= there[key] and not _suffices(newest[key], text, substance)
    known = newest.copy()

    def complete(places: list[int]) -> None:
        for place, history in zip(places, latest_versions(session, [keys[place] for place in places]), strict=True):
            known[place] = history

    complete(np.flatnonzero(differs).tolist())
    # The document that a dropped version is known by may be replaced in this batch. Then the versions before it decide.
    replaceable = {history.current.number for history in known if history is not None and history.current is not None}
    complete(
        [
            place
            for place, history in enumerate(newest)
            if history is not None
            and not differs[place]
            and not history.last.own
            and history.last.number in replaceable
        ]
    )
    return Versions(keys_of_rows, keys, known)


def _suffices(history: History | None, text: int, substance: int) -> bool:
    """Whether the last version alone decides a text: equal, or of the delivered substance."""
    if history is None or not history.last.visible:
        return False
    return history.last.delivered[1] == substance if history.last.own else history.last.text == text


def stand_for_keys(session: ReadSession, numbers: npt.NDArray[np.uint64], keys: Sequence[Key]) -> npt.NDArray[np.bool_]:
    """Whether each document, uint64 [n], is a visible original with this key: bool [n]."""
    own, _ = _documents(session, numbers, keys)
    return own & session.visibility.visible(numbers)


def _histories(session: ReadSession, keys: Sequence[Key], found: Hits) -> list[History | None]:
    """Histories of documents by rows that come by key, newest first."""
    if not len(found.rows):
        return [None] * len(keys)
    asked, rows, sources = _counting(session, keys, found)

    def versions(at: list[int]) -> list[Version]:
        some, numbers = rows[at], rows["number"][at].astype(np.uint64)
        own, documents = _documents(session, numbers, [keys[key] for key in asked[at].tolist()])
        records = (some[name].tolist() for name in ("number", "text", "substance", "returns", "strangers", "offset"))
        visible, delivered = sets.visible(session, numbers).tolist(), documents[["text", "substance"]].tolist()
        return list(map(Version, *records, sources[at].tolist(), visible, own.tolist(), delivered))

    distinct, begins = np.unique(asked, return_index=True)
    edges, substances = [*begins.tolist(), len(asked)], rows["substance"].tolist()
    strangers = rows["strangers"].tolist()
    spans = [(key, begin, end) for key, (begin, end) in zip(distinct.tolist(), pairwise(edges), strict=True)]
    lasts = versions([begin for _, begin, _ in spans])
    # The last version usually stands. Only if it does not, older ones are read: the newest of them is the last here.
    left = [span for span, last in zip(spans, lasts, strict=True) if not last.is_current]
    older = [at for _, begin, end in left for at in reversed(range(begin + 1, end))]
    older_versions = zip(asked[older].tolist(), versions(older), strict=True)
    standing = {key: version for key, version in older_versions if version.is_current}
    histories: list[History | None] = [None] * len(keys)
    for (key, begin, end), last in zip(spans, lasts, strict=True):
        current, most = last if last.is_current else standing.get(key), max(strangers[begin:end])
        count = most if most > STRANGERS_MAX else last.strangers
        histories[key] = History(last, current, set(substances[begin:end]), count)
    return histories


def _counting(
    session: ReadSession, keys: Sequence[Key], found: Hits
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.void], npt.NDArray[np.void]]:
    """The rows that count as versions: places of their keys int64 [m], LOG_ROW [m] and LOG_SOURCE [m]."""
    transaction, visibility = session.transaction, session.visibility
    places = session.ids.places(transaction, found.rows)
    rows, sources = log.rows_at(log.values_of(transaction, places.keys)[0, places.batches], places.rows)
    right = (rows["kind"] <= Kind.EXACT) & (rows["number"] != NO_NUMBER)
    right &= rows["host"] == np.array([host for _, host in keys], np.uint32)[found.asked]
    if len(visibility.horizon.sources):
        row_sources = zip(places.batches.tolist(), sources.tolist(), strict=True)
        expired = [visibility.row_has_expired(places.keys[batch], *source) for batch, source in row_sources]
        right &= ~np.array(expired, np.bool_)
    right[right] = visibility.are_unexpired(rows["number"][right].astype(np.uint64))
    return found.asked[right], rows[right], sources[right]


def _documents(
    session: ReadSession, numbers: npt.NDArray[np.uint64], keys: Sequence[Key]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.void]]:
    """Whether each document, uint64 [n], is an original with its key, bool [n]; and their rows in the log."""
    stored = sets.stored(session, numbers)
    own_keys = zip(stored.ids, stored.rows["host"].tolist(), strict=True)
    own = np.fromiter(map(eq, own_keys, keys), np.bool_, len(numbers))
    return own & stored.there & standing_for_themselves(stored.rows["verdict"]), stored.rows
