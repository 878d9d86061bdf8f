"""RESOLVE: the rule, for documents with an earlier match, or a page that came before. One key: every decision sees the
earlier ones.

Most documents never come here: without either a document is unique. `index.decide.rule` decides the others, with a slot's
documents as its rows and all earlier ones as its index.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from index.dataflow.ages import unpack_place
from index.dataflow.history import are_entries, numbers_of
from index.dataflow.ledger import Ledger
from index.dataflow.message import EQUAL_TEXT, Decided, Floor, Kind, Message, Stage, Task
from index.dataflow.resolving.deciding import Concluded, as_recorded, concluded
from index.dataflow.resolving.fates import FateStore
from index.dataflow.resolving.forgotten import FORGOTTEN, ForgottenNames
from index.dataflow.resolving.given_back import GIVEN_BACK, GivenBack
from index.dataflow.resolving.horizon import Horizon
from index.dataflow.resolving.known import Gatherer, keys_of
from index.dataflow.resolving.page_states import PageState, PageStates, page_name
from index.dataflow.resolving.retention import RetentionState
from index.dataflow.rows import (
    FOLLOWER,
    PAIR,
    RECORDED,
    Layout,
    Retained,
    Rows,
    by_group,
    packed_by_group,
    rows_of,
    run_begins,
    shard_of_batches,
    verdict_bytes,
)
from index.decide.prepare import ROWS_AT_ONCE
from index.decide.rule import rule_of
from index.entry import Verdict, naming_originals
from index.kernels.versions import SHARED_ID
from index.kernels.walk import NO_ORIGIN
from index.session import Longer
from index.storage.parameters import Parameters
from index.versions.reasons import original_columns

_NONE = np.empty(0, FOLLOWER)
_BATCH = np.dtype([("high", ">u8")])
_PAGE = np.dtype([("page", "<u8")])


class Resolve:
    """The operator RESOLVE."""

    def __init__(
        self,
        parameters: Parameters,
        longer: Longer | None,
        layout: Layout,
        shards: int,
        retained: Retained | None = None,
        *,
        updates: bool = False,
    ):
        """See `Dataflow`."""
        self._layout, self._shards, self._rule = layout, shards, rule_of(parameters, longer)
        self._updates, self._retained = updates, retained
        self._no_members = np.empty(0, layout.settled)
        self._retention = None if retained is None else RetentionState(retained)
        self._fates, self._pages = FateStore(layout), PageStates(layout)
        self._forgotten, self._given_back = ForgottenNames(), GivenBack()
        self._gatherer = Gatherer(layout, self._fates, self._pages, self._forgotten, self._given_back, retained)
        self._batches, self._names = Ledger(b"batches", _BATCH), Ledger(b"states", _PAGE)
        # Compiled loops may hang in a JVM's thread: they restore the thread state of whichever operator came there first.
        self._own_thread = ThreadPoolExecutor(1)

    def complete(self, task: Task, slot: int, messages: Sequence[Message]) -> Iterator[Message | Decided | Floor]:
        """Decide a slot's documents that have hits."""
        settled = rows_of((each.content for each in messages if each.kind == Kind.SETTLED), self._layout.settled)
        if len(settled):
            self._fates.write(task, _NONE, settled, _NONE)
        recorded = rows_of((each.content for each in messages if each.kind == Kind.RECORDED), RECORDED)
        recorded = np.take(recorded, np.lexsort((recorded["low"], recorded["high"])))
        if len(recorded):
            gone = recorded[~are_entries(recorded["history"])]
            self._note(task, self._fates.write(task, gone, self._no_members, _NONE), {})
        hits = rows_of((each.content for each in messages if each.kind == Kind.HITS), self._layout.hit)
        forgets = rows_of((each.content for each in messages if each.kind == Kind.FORGOTTEN), FORGOTTEN)
        forgets = np.take(forgets, np.lexsort((forgets["low"], forgets["high"])))
        given_back = rows_of((each.content for each in messages if each.kind == Kind.GIVEN_BACK), GIVEN_BACK)
        given_back = np.take(given_back, np.lexsort((given_back["low"], given_back["high"])))
        self._given_back.add(task, given_back)
        if self._retention is None or self._retained is None:
            for names, own in _between(forgets, hits):
                self._forgotten.add(task, names)
                for found in self._decided(task, own, given_back, None, recorded):
                    yield from self._named(found, slot)
            return
        places = [unpack_place(each.content) for each in messages if each.kind == Kind.PLACES]
        places.sort(key=lambda place: place.high)
        numbers = numbers_of(messages)
        for place in places:
            self._retention.count_on(task, numbers.pop(place.high, None))
            is_due = forgets["high"] <= place.high
            self._forgotten.add(task, forgets[is_due])
            forgets = forgets[~is_due]
            horizon = self._retention.before(task, place)
            own = hits["high"] == place.high
            # What an epoch held that is over has expired, and is removed.
            own &= self._retained.epochs(hits["earlier_high"]) >= self._retention.latest_floor(task)
            entered = place.may_enter
            for found in self._decided(task, hits[own], given_back, horizon, recorded):
                if not len(recorded):
                    documents = found.known.documents[found.known.first :]
                    entered[documents["low"][~found.outcomes.entering]] = False
                yield from self._named(found, slot)
            self._retention.enter(task, place, entered)
        self._forgotten.add(task, forgets)
        for number in numbers.values():
            self._retention.count_on(task, number)
        floor = self._retention.floor(task)
        self._retention.write(task)
        if floor is not None:
            self._remove(task, floor.epoch, self._retained)
            self._forgotten.remove(task, floor.epoch, self._retained)
            self._given_back.remove(task, floor.epoch, self._retained)
            yield floor

    def _decided(
        self, task: Task, hits: Rows, given_back: Rows, horizon: Horizon | None, recorded: Rows
    ) -> Iterator[Concluded]:
        """Decide documents with these hits, and put what comes of it. What was given back enters at its place.

        recorded  RECORDED in order, decisions on all documents in the slot if they are a seed's
        """
        if len(recorded):
            for places in _portions(hits):
                found = as_recorded(self._gatherer.known(task, hits[places], horizon), recorded)
                self._write(task, found)
            return
        for are_given_back, own in _apart(given_back, hits):
            for places in _portions(own):
                known = self._gatherer.known(task, own[places], horizon)
                deciding = partial(concluded, known, self._rule, are_given_back=are_given_back)
                found = self._own_thread.submit(deciding).result()
                self._write(task, found)
                yield found

    def _named(self, found: Concluded, slot: int) -> Iterator[Message]:
        rejects = self._rejects(found)
        shards = shard_of_batches(rejects["earlier_high"], self._shards)
        for shard, content in packed_by_group(rejects, shards):
            yield Message(Stage.NAME, shard, slot, Kind.REJECTS, content)

    def _note(self, task: Task, batches: Sequence[bytes], pages: Mapping[int, PageState]) -> None:
        """Note what was put by epoch."""
        if self._retained is None:
            return
        names = np.frombuffer(b"".join(batches), _BATCH)
        for epoch, places in by_group(self._retained.epochs(names["high"].astype(np.uint64))):
            self._batches.note(task, epoch, names[places])
        noted = np.fromiter(pages, _PAGE, len(pages))
        latest = np.array([each.records["high"][-1] for each in pages.values()], np.uint64)
        for epoch, places in by_group(self._retained.epochs(latest)):
            self._names.note(task, epoch, noted[places])

    def _remove(self, task: Task, floor: int, retained: Retained) -> None:
        """Remove what epochs put that are over. Pages stay that came again."""
        for noted in self._batches.over(task, floor):
            self._fates.remove(task, noted.view("V8").tolist())
        for noted in self._names.over(task, floor):
            pages = noted["page"].tolist()
            states = self._pages.read(task, pages)
            latest = np.array([0 if each is None else each.records["high"][-1] for each in states], np.uint64)
            is_over = retained.epochs(latest) < floor
            task.remove_all([page_name(pages[place]) for place in np.flatnonzero(is_over).tolist()])

    def _rejects(self, found: Concluded) -> Rows:
        """Documents that name an original, or a reason, as PAIR."""
        outcomes, known = found.outcomes, found.known
        marks, named = outcomes.marks, found.numbers(outcomes.named)
        if self._updates:
            _, equal_texts = original_columns(outcomes, found.documents)
            marks = np.where((marks == 0) & equal_texts, EQUAL_TEXT, marks)
        rows = np.flatnonzero(naming_originals(outcomes.verdicts) | (marks == SHARED_ID))
        rejects, documents = np.zeros(len(rows), PAIR), known.documents
        is_former = outcomes.origins[rows] != NO_ORIGIN
        rejects["distance"] = outcomes.distances[rows]
        rejects["verdict"] = verdict_bytes(outcomes.verdicts[rows], marks[rows], is_former)
        for prefix, numbers in (("", known.first + rows), ("earlier_", named[rows])):
            rejects[f"{prefix}high"], rejects[f"{prefix}low"] = documents["high"][numbers], documents["low"][numbers]
        # An update without a current version names the last record, which is no entry.
        for place in np.flatnonzero(is_former).tolist():
            rejects["earlier_high"][place], rejects["earlier_low"][place] = found.record_before(int(rows[place]))
        return rejects

    def _write(self, task: Task, found: Concluded) -> None:
        """Put the documents' fates, and their pages."""
        outcomes, known = found.outcomes, found.known
        documents = known.documents
        lost = np.roll(found.documents.lost, known.first)
        gone = lost & ~known.gone
        gone[known.first :] |= ~outcomes.entering
        rows = np.flatnonzero(outcomes.entering & (outcomes.verdicts == Verdict.DUPLICATE))
        members, roots = np.zeros(len(rows), self._layout.settled), found.numbers(outcomes.named[rows])
        for name, numbers in (("high", known.first + rows), ("low", known.first + rows)):
            members[name] = documents[name][numbers]
        for name in ("high", "low", "whole", "tag"):
            members[f"earlier_{name}"] = documents[name][roots]
        entered = known.first + np.flatnonzero(outcomes.entering)
        entered = entered[~lost[entered] & (known.alike[entered] != entered)]
        followers = np.concatenate([known.followers, np.stack([known.alike[entered], entered])], axis=1)
        # A changed list is put whole, without the entries that have left.
        followers = followers[:, ~lost[followers[1]] & np.isin(followers[0], known.alike[entered])]
        batches = self._fates.write(task, documents[gone], members, _follower_rows(documents, followers))
        if found.is_decided:
            self._note_given_back(task, found)
        states = found.states() if self._updates else {}
        self._pages.write(task, states)
        self._note(task, batches, states)

    def _note_given_back(self, task: Task, found: Concluded) -> None:
        """Note updates of what was given back as given back too."""
        outcomes, known = found.outcomes, found.known
        rows = np.flatnonzero(outcomes.verdicts == Verdict.UPDATE)
        if not len(rows):
            return
        updates, replaced = known.documents[known.first + rows], known.documents[found.numbers(outcomes.named[rows])]
        given_back = {*keys_of(self._given_back.with_ids(task, updates["tag"]["names"][:, 0, 0])).tolist()}
        noted = np.zeros(len(rows), np.bool_)
        for place, (key, before) in enumerate(zip(keys_of(updates).tolist(), keys_of(replaced).tolist(), strict=True)):
            # Of updates 8 of 5 and 9 of 8, the second is a version of 5 too.
            if before in given_back:
                given_back.add(key)
                noted[place] = True
        versions = np.zeros(int(noted.sum()), GIVEN_BACK)
        for name in ("high", "low"):
            versions[name] = updates[name][noted]
        versions["names"] = updates["tag"]["names"][noted, 0]
        self._given_back.add(task, versions)


def _portions(hits: Rows) -> Iterator[npt.NDArray[np.intp]]:
    """Hits in order, for at most ROWS_AT_ONCE documents each."""
    _, ranks = np.unique(keys_of(hits), return_inverse=True)
    return (places for _, places in by_group(ranks // ROWS_AT_ONCE))


def _apart(given_back: Rows, hits: Rows) -> Iterator[tuple[bool, Rows]]:
    """Runs of hits in the order of their documents, and whether those were given back; given_back: GIVEN_BACK in order."""
    keys, entering = keys_of(hits), keys_of(given_back)
    begins = entering[run_begins(given_back["high"])] if len(entering) else entering
    are_given_back = np.isin(keys, entering)
    # A batch that was given back is whole between two others: runs 0, 1 and 2 are before it, itself and behind it.
    runs = 2 * np.searchsorted(begins, keys, "right") - are_given_back
    for run, places in by_group(runs):
        yield bool(run % 2), hits[places]


def _between(forgets: Rows, hits: Rows) -> Iterator[tuple[Rows, Rows]]:
    """What to forget, as FORGOTTEN in order, and the hits of documents after that and before the next."""
    places, keys = keys_of(forgets), keys_of(hits)
    begins = run_begins(places)
    yield forgets[:0], hits[keys < places[0]] if len(places) else hits
    for begin, end in pairwise([*begins.tolist(), len(places)]):
        after = keys >= places[begin]
        if end < len(places):
            after &= keys < places[end]
        yield forgets[begin:end], hits[after]


def _follower_rows(documents: Rows, followers: npt.NDArray[np.int64]) -> Rows:
    rows = np.zeros(followers.shape[1], FOLLOWER)
    for name in ("high", "low"):
        rows[name], rows[f"later_{name}"] = documents[name][followers]
    if len(rows):
        rows["tag"] = documents["tag"][followers[1], 0]
    return rows
