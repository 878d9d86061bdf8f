"""Versions of a document: what the log knows about earlier records with its id.

An id belongs to one document on one host; an unknown host counts as a host of its own. A version counts until its row
expires, or the document that it was or duplicated. So a record dropped as a copy of another document is a version too.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.entry import NO_NUMBER, Entries, Kind, standing_for_themselves
from index.lsm.row_directory import RowPlace
from index.session import ReadSession
from index.storage import log
from index.storage.log import Origin

ROWS_OF_ID_MAX = 64
"""Last rows with one id that the history reads."""

Key = tuple[str, int]
"""Id of a document and its host's digest."""


class Version(NamedTuple):
    """One record of a document.

    number     the document that it is or duplicated
    text       its text's digest
    substance  its substance's digest
    returns    how often the document had returned to an earlier substance
    origin     the record itself
    visible    whether document `number` counts
    own        whether that document is an original with this key, visible or not
    delivered  digests of that document's text and substance
    """

    number: int
    text: int
    substance: int
    returns: int
    origin: Origin
    visible: bool
    own: bool
    delivered: tuple[int, int]

    @property
    def stands(self) -> bool:
        """Whether its document was delivered for this key and still counts."""
        return self.visible and self.own


def standing(versions: Iterable[Version]) -> Version | None:
    """The first of these versions that stands."""
    return next((version for version in versions if version.stands), None)


def newest_versions(session: ReadSession, keys: Sequence[Key]) -> list[list[Version] | None]:
    """Each document's last version, if the last row with its id is one; None without a row."""
    places = session.ids.newest(session.transaction, [id_ for id_, _ in keys])
    versions_of_keys = _versions(session, keys, [[] if place is None else [place] for place in places])
    return [None if place is None else versions for place, versions in zip(places, versions_of_keys, strict=True)]


def latest_versions(session: ReadSession, keys: Sequence[Key]) -> list[list[Version]]:
    """Each document's versions among the last ROWS_OF_ID_MAX rows with its id, newest first."""
    ids = [id_ for id_, _ in keys]
    return _versions(session, keys, session.ids.latest(session.transaction, ids, ROWS_OF_ID_MAX))


@dataclass(frozen=True, slots=True)
class Versions:
    """Older versions of n rows.

    of_rows  int64 [n], each row's key, by place in `keys`; -1 without a usable id
    keys     distinct
    known    each key's versions, newest first: all that count, or only the last
    whole    by key, whether `known` has all that count, bool [k]; if any count
    settled  bool [n], rows that their document's last version decides alone, whatever they match
    """

    of_rows: npt.NDArray[np.int64]
    keys: list[Key]
    known: list[list[Version]]
    whole: npt.NDArray[np.bool_]
    settled: npt.NDArray[np.bool_]


def versions_of(session: ReadSession, entries: Entries) -> Versions | None:
    """Older versions of the rows; None if ids make no difference: by policy, or if no id is known or repeats."""
    if session.recrawl.policy == "duplicate":
        return None
    decided = (entries.kinds == Kind.NEAR) | (entries.kinds == Kind.EXACT)
    if entries.named is not None:
        decided &= entries.named
    rows = [row for row in np.flatnonzero(decided).tolist() if entries.ids[row]]
    hosts = log.host_digests(entries).tolist()
    place_of: dict[Key, int] = {}
    of_rows = np.full(len(entries), -1, np.int64)
    of_rows[rows] = [place_of.setdefault((entries.ids[row], hosts[row]), len(place_of)) for row in rows]
    keys = list(place_of)
    newest = newest_versions(session, keys)
    if len(keys) == len(rows) and not any(newest):
        # The id may be known, but on another host.
        others = [place for place, versions in enumerate(newest) if versions is not None]
        if not others or not any(latest_versions(session, [keys[place] for place in others])):
            return None
    assert entries.digests is not None
    differs = np.zeros(len(keys), np.bool_)
    for row, text, substance in zip(rows, *entries.digests[rows].T.tolist(), strict=True):
        last = newest[of_rows[row]]
        differs[of_rows[row]] |= last is not None and not _suffices(last, text, substance)
    asked = np.flatnonzero(differs).tolist()
    known = [versions or [] for versions in newest]
    for place, versions in zip(asked, latest_versions(session, [keys[place] for place in asked]), strict=True):
        known[place] = versions
    own = np.array([bool(versions and versions[0].own) for versions in newest], np.bool_)
    return Versions(of_rows, keys, known, differs, (of_rows >= 0) & (own & ~differs)[of_rows])


def _suffices(last: list[Version], text: int, substance: int) -> bool:
    """Whether the last version alone decides a text: equal, or of the delivered substance."""
    if not last or not last[0].visible:
        return False
    return last[0].delivered[1] == substance if last[0].own else last[0].text == text


def stand_for_keys(session: ReadSession, numbers: npt.NDArray[np.uint64], keys: Sequence[Key]) -> npt.NDArray[np.bool_]:
    """Whether each document, uint64 [n], is a visible original with this key: bool [n]."""
    visible, own, _ = _documents(session, numbers, keys)
    return visible & own


def delivered(session: ReadSession, number: int, key: Key) -> tuple[int, int] | None:
    """Digests of a document's text and substance, if it is a visible original with this key."""
    (visible,), (own,), (digests,) = _documents(session, np.array([number], np.uint64), [key])
    return (int(digests["text"]), int(digests["substance"])) if visible and own else None


def _versions(session: ReadSession, keys: Sequence[Key], places: Sequence[Iterable[RowPlace]]) -> list[list[Version]]:
    transaction, visibility = session.transaction, session.visibility
    asked = sorted((place.batch, place.row, of_key) for of_key, of_id in enumerate(places) for place in of_id)
    kept: list[tuple[int, int]] = []
    rows: list[npt.NDArray[np.void]] = []
    origins: list[Origin] = []
    for batch_key, of_batch in groupby(asked, lambda each: each[0]):
        batch = log.read(transaction, batch_key, session.words)
        at, of_keys = np.array([each[1:] for each in of_batch], np.int64).T
        own = batch.rows[at]
        expired = np.array([visibility.row_has_expired(batch_key, *each) for each in batch.sources.tolist()], np.bool_)
        right = (own["kind"] <= Kind.EXACT) & (own["number"] != NO_NUMBER) & ~expired[own["source"]]
        right &= own["host"] == np.array([keys[of_key][1] for of_key in of_keys.tolist()], np.uint32)
        at, own = at[right], own[right]
        of_sources = batch.sources[own["source"]]
        columns = of_sources["stream"].tolist(), of_sources["partition"].tolist(), own["offset"].tolist()
        origins += map(Origin, batch.ids(at), *columns)
        rows.append(own)
        kept += [(of_key, place) for place, of_key in enumerate(of_keys[right].tolist(), start=len(kept))]
    versions: list[list[Version]] = [[] for _ in keys]
    if not kept:
        return versions
    together = np.concatenate(rows)
    numbers = together["number"].astype(np.uint64)
    documents = _documents(session, numbers, [keys[of_key] for of_key, _ in kept])
    counts = visibility.are_unexpired(numbers)
    names = ("number", "text", "substance", "returns")
    of_records = zip(*(together[name].tolist() for name in names), strict=True)
    of_documents = zip(*(column.tolist() for column in documents), strict=True)
    for (of_key, place), own, origin, of_document in zip(kept, of_records, origins, of_documents, strict=True):
        if counts[place]:
            versions[of_key].append(Version._make((*own, origin, *of_document)))
    return [of_key[::-1] for of_key in versions]


def _documents(
    session: ReadSession, numbers: npt.NDArray[np.uint64], keys: Sequence[Key]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_], npt.NDArray[np.void]]:
    """For documents, uint64 [n]: whether each is visible, and an original with this key, bool [n] twice; and its digests."""
    stored = log.documents(session.transaction, numbers, session.words)
    own_keys = zip(stored.ids, stored.rows["host"].tolist(), strict=True)
    own = np.fromiter((one == other for one, other in zip(own_keys, keys, strict=True)), np.bool_, len(numbers))
    own &= stored.there & standing_for_themselves(stored.rows["verdict"])
    return session.visibility.visible(numbers), own, stored.rows[["text", "substance"]]
