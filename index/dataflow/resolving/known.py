"""What RESOLVE knows of documents with hits before it decides them: earlier documents, their fates, and their pages.

CLAIM files the first of alike documents alone, and each later one hits it. Once that entry has left, a later alike document
may enter. It follows the first one, which answers for it: a hit on the first one is a hit on all its followers.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.dataflow.message import Task
from index.dataflow.resolving.fates import FateStore
from index.dataflow.resolving.forgotten import ForgottenNames
from index.dataflow.resolving.given_back import GivenBack
from index.dataflow.resolving.horizon import Horizon
from index.dataflow.resolving.page_states import PAGE_RECORD, KnownPages, PageStates, first_records, joined
from index.dataflow.rows import Layout, Retained, Rows, are_alike
from index.entry import Verdict
from index.kernels.judge import NONE

Keys = npt.NDArray[np.bytes_]
"""Documents' keys as 16 bytes, which sort as the documents."""

Numbers = npt.NDArray[np.int64]


class Known(NamedTuple):
    """The documents that hits need, by number in order.

    documents  `Layout.signature` [m]
    first      the first one with a hit: all before are decided, all from it on are not, unique ones among them
    gone       bool [m], decided documents that are no entries
    roots      int64 [m], each one's root by number; NONE for members whose root is gone
    alike      int64 [m], for an undecided document the first one alike to it, or itself
    hits       int64 [2, h], undecided documents, and what they hit as far as it is an entry or undecided
    followers  int64 [2, f], decided documents, and entries that follow them
    pages      that came before
    again      uint64 [p], these pages and those that come again among the undecided documents, as digests
    by_id      bool [m - first], undecided documents whose id was given back: they match their own versions alone
    expires    whether entries leave by retention
    """

    documents: Rows
    first: int
    gone: npt.NDArray[np.bool_]
    roots: Numbers
    alike: Numbers
    hits: Numbers
    followers: Numbers
    pages: KnownPages
    again: npt.NDArray[np.uint64]
    by_id: npt.NDArray[np.bool_]
    expires: bool

    @property
    def digests(self) -> npt.NDArray[np.uint64]:
        """Each document's page as a digest, uint64 [m]; 0 without a usable id, or without updates."""
        tags = self.documents["tag"]
        return tags["page"][:, 0] if tags.size else np.zeros(len(tags), np.uint64)

    def numbers_of(self, rows: Rows, prefix: str = "") -> tuple[Numbers, npt.NDArray[np.bool_]]:
        """Documents with the keys of these rows by number, int64 [n], and whether they are there, bool [n]."""
        keys, asked = keys_of(self.documents), keys_of(rows, prefix)
        numbers = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
        return numbers, keys[numbers] == asked


class _Fates(NamedTuple):
    """Keys that are gone, members as `Layout.settled`, and FOLLOWER rows."""

    gone: Keys
    members: Rows
    followers: Rows


class Gatherer:
    """Gathers what hits need from RESOLVE's state."""

    def __init__(
        self,
        layout: Layout,
        fates: FateStore,
        pages: PageStates,
        forgotten: ForgottenNames,
        given_back: GivenBack,
        retained: Retained | None,
    ):
        self._layout, self._fates, self._pages, self._retained = layout, fates, pages, retained
        self._forgotten, self._given_back = forgotten, given_back

    def known(self, task: Task, hits: Rows, horizon: Horizon | None) -> Known:
        """All that is known before documents with these hits, as `Layout.hit`, are decided.

        horizon  of retention, if there is any: all hits are then those of one batch
        """
        own, earlier = self._side(hits), self._side(hits, "earlier_")
        own_keys, earlier_keys = keys_of(own), keys_of(earlier)
        first_key = np.sort(own_keys)[0]
        before = earlier_keys < first_key
        is_version = hits["verdict"] == Verdict.UPDATE
        pages = self._page_states(task, own[is_version], earlier[is_version], before[is_version], horizon)
        fates = self._fates_of(task, earlier[before])
        following = self._following(fates.followers, earlier)
        others = np.concatenate([following, pages.documents])
        # Without updates nothing leaves, so that no fates but the hits' matter.
        later = self._fates_of(task, others[: len(others) * self._layout.leaves])
        members = np.concatenate([fates.members, later.members])
        roots = self._side(members, "earlier_")
        gone_roots = self._fates_of(task, roots[: len(roots) * self._layout.leaves]).gone
        parts = np.concatenate([own, earlier, others, roots])
        keys, places = np.unique(keys_of(parts), return_index=True)
        documents, first = parts[places], int(np.searchsorted(keys, first_key))
        gone = np.zeros(len(keys), np.bool_)
        gone[np.searchsorted(keys, np.concatenate([fates.gone, later.gone, gone_roots]))] = True
        if self._layout.leaves:
            gone[:first] |= self._forgotten.are(task, documents[:first], documents["tag"]["names"][:first, 0])
        if horizon is not None:
            gone[:first] |= horizon.expired(documents[:first])
        root_numbers = np.arange(len(keys))
        root_numbers[np.searchsorted(keys, keys_of(members))] = np.searchsorted(keys, keys_of(roots))
        root_numbers[gone[root_numbers] & (root_numbers != np.arange(len(keys)))] = NONE
        pairs = np.searchsorted(keys, np.stack([own_keys, earlier_keys])[:, ~is_version])
        followers = np.searchsorted(keys, np.stack([keys_of(fates.followers), keys_of(following)]))
        followers, alike = followers[:, ~gone[followers[1]]], np.arange(len(keys))
        if self._layout.leaves:
            same = are_alike(documents["whole"][pairs[0]], documents["whole"][pairs[1]])
            if self._retained is not None:
                # CLAIM files the first of alike documents in each epoch.
                same &= np.equal(*self._retained.epochs(documents["high"][pairs]))
            alike[pairs[0][same]] = pairs[1][same]
            pairs = _with_alike(pairs, followers, alike)
        pairs = pairs[:, ~gone[pairs[1]]]
        again = np.unique(own["tag"]["page"][is_version].ravel())
        by_id = self._are_by_id(task, documents[first:], horizon)
        return Known(
            documents, first, gone, root_numbers, alike, pairs, followers, pages, again, by_id, horizon is not None
        )

    def _are_by_id(self, task: Task, undecided: Rows, horizon: Horizon | None) -> npt.NDArray[np.bool_]:
        """Whether each document's id is that of an entry that was given back before all of them, bool [n]."""
        if not self._layout.leaves:
            return np.zeros(len(undecided), np.bool_)
        ids = undecided["tag"]["names"][:, 0, 0]
        given_back = self._given_back.with_ids(task, ids)
        given_back = given_back[keys_of(given_back) < keys_of(undecided[:1])]
        if not len(given_back):
            return np.zeros(len(undecided), np.bool_)
        gone = np.isin(keys_of(given_back), self._fates_of(task, given_back).gone)
        gone |= self._forgotten.are(task, given_back, given_back["names"])
        if horizon is not None:
            gone |= horizon.expired(given_back)
        return np.isin(ids, given_back["names"][~gone, 0])

    def _side(self, rows: Rows, prefix: str = "") -> Rows:
        side = np.zeros(len(rows), self._layout.signature)
        for name in side.dtype.names or ():
            side[name] = rows[prefix + name]
        return side

    def _fates_of(self, task: Task, documents: Rows) -> _Fates:
        keys, places = np.unique(keys_of(documents), return_index=True)
        found = self._fates.read(task, documents["high"][places], documents["low"][places])
        return _Fates(keys[found.gone], found.members, found.followers)

    def _page_states(
        self,
        task: Task,
        records: Rows,
        latest: Rows,
        are_decided: npt.NDArray[np.bool_],
        horizon: Horizon | None,
    ) -> KnownPages:
        """Pages whose latest record is decided; records, latest: documents, and the ones before them on their pages."""
        distinct, places = np.unique(records["tag"]["page"].ravel()[are_decided], return_index=True)
        latest = latest[are_decided][places]
        states, firsts = self._pages.read(task, distinct.tolist()), first_records(latest)
        parts, documents = [], []
        keys = zip(latest["high"].tolist(), latest["low"].tolist(), strict=True)
        for place, (state, key) in enumerate(zip(states, keys, strict=True)):
            # A state without the latest record is one whose records have all expired.
            if state is None or state.records[-1].item()[:2] < key:
                parts.append(firsts[place : place + 1])
            else:
                parts.append(state.records)
                documents.append(state.documents)
        pages = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        kept = joined(parts, PAGE_RECORD)
        if horizon is not None:
            counting = ~(horizon.expired(kept, "document_") | horizon.expired_by_age(kept))
            kept, pages = kept[counting], pages[counting]
        return KnownPages(distinct, kept, pages, joined(documents, self._layout.signature))

    def _following(self, followers: Rows, earlier: Rows) -> Rows:
        """FOLLOWER rows as documents: alike to the first ones, which are among `earlier`."""
        following = np.zeros(len(followers), self._layout.signature)
        if not len(followers):
            return following
        keys, places = np.unique(keys_of(earlier), return_index=True)
        firsts = places[np.searchsorted(keys, keys_of(followers))]
        following["high"], following["low"] = followers["later_high"], followers["later_low"]
        following["whole"], following["tag"] = earlier["whole"][firsts], followers["tag"][:, None]
        return following


def keys_of(rows: Rows, prefix: str = "") -> Keys:
    """Keys [n], from columns `high` and `low` behind a prefix."""
    return np.stack([rows[f"{prefix}high"], rows[f"{prefix}low"]], axis=1).astype(">u8").view("S16").ravel()


def _with_alike(pairs: Numbers, followers: Numbers, alike: Numbers) -> Numbers:
    """Pairs with the first alike document, int64 [2, m], and pairs with all later ones alike to it and before the own one.

    followers, alike  as in `Known`: undecided ones may enter too
    """
    (rows, hit), count = pairs, len(alike)
    leaders, following = followers[:, np.argsort(followers[0], kind="stable")]
    begins, ends = np.searchsorted(leaders, hit), np.searchsorted(leaders, hit, "right")
    decided = _joined(rows, begins, ends, following)
    undecided = np.flatnonzero(alike != np.arange(count))
    undecided = undecided[np.argsort(alike[undecided], kind="stable")]
    # First and later one in one number: both ascend.
    numbers = alike[undecided] * count + undecided
    ends = np.searchsorted(numbers, hit * count + rows)
    entering = _joined(rows, np.searchsorted(numbers, hit * count), ends, undecided)
    return np.concatenate([pairs, decided, entering], axis=1)


def _joined(rows: Numbers, begins: Numbers, ends: Numbers, others: Numbers) -> Numbers:
    """Each row with the others from its begin to its end, as pairs int64 [2, m]."""
    lengths = ends - begins
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.stack([np.repeat(rows, lengths), others[np.repeat(begins, lengths) + within]])
