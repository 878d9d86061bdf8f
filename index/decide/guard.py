"""The guard: counts near but unequal duplicates by host, and lets those of a host beyond the limits pass where it is to.

It runs in the transaction that decides. The sketch stands in the file and counts what is decided, once. So a crash, a replay
and another process see the same.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.decide.prepare import Prepared
from index.decide.rule import Outcome
from index.entry import NO_NUMBER, HostShare, Kind, Verdict
from index.matching.host_sketch import NO_HOST
from index.session import ReadSession, WriteSession
from index.storage.layout import HOSTS_KEY, Table, pack_hosts, unpack_hosts


class Guarded(NamedTuple):
    """Outcome of rows after the guard, and the hosts that crossed the limits."""

    outcome: Outcome
    crossings: list[HostShare]


def guarded(session: WriteSession, portion: Prepared, outcome: Outcome, equal: npt.NDArray[np.bool_]) -> Guarded:
    """Count decided rows by their hosts. Without a host it costs nothing.

    With `Guard.suspects` an unequal duplicate is SUSPECT where its host was beyond the limits before it. A suspect enters, so
    its copies are equal to an entry. Suspects count as the duplicates that they would have been.

    equal  bool [n], NEAR rows whose fingerprint equals that of an entry that is not retired
    """
    if not (portion.hosts != NO_HOST).any():
        return Guarded(outcome, [])
    limits = session.guard.limits
    before = unpack_hosts(session.transaction.get(Table.META, HOSTS_KEY))
    unequal = _unequal(portion, outcome, equal)
    sketch = before.with_rows(portion.hosts, portion.entries.hosts or (), unequal, limits)
    session.transaction.put(Table.META, HOSTS_KEY, pack_hosts(sketch))
    if session.guard.suspects and unequal.any():
        beyond = np.flatnonzero(unequal & before.beyond_before(portion.hosts, unequal, limits))
        _, places = np.unique(portion.firsts[beyond], return_index=True)
        outcome = _with_suspects(outcome, beyond[places], session.counters.next_number)
    return Guarded(outcome, sketch.crossed(before))


def foreseen(
    session: ReadSession, portion: Prepared, outcome: Outcome, equal: npt.NDArray[np.bool_], next_number: int
) -> Outcome:
    """The outcome that `guarded` would give each row if it came alone; counts nothing.

    next_number  from which `outcome` numbers entering rows
    """
    if not session.guard.suspects or not (portion.hosts != NO_HOST).any():
        return outcome
    before = unpack_hosts(session.transaction.get(Table.META, HOSTS_KEY))
    unequal = _unequal(portion, outcome, equal)
    beyond = unequal & before.are_beyond(portion.hosts, session.guard.limits)
    return _with_suspects(outcome, np.flatnonzero(beyond), next_number)


def _unequal(portion: Prepared, outcome: Outcome, equal: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Rows that are near but unequal duplicates, bool [n]."""
    unequal: npt.NDArray[np.bool_] = outcome.verdicts == Verdict.DUPLICATE
    if outcome.minor is not None:
        # A site whose pages have counters is no flood.
        unequal &= ~outcome.minor
    unequal &= (portion.entries.kinds == Kind.NEAR) & (outcome.distances != 0)
    # An equal row may have entered before, in an earlier batch or in this one.
    firsts = portion.firsts
    unequal &= ~equal & ((firsts == np.arange(len(firsts))) | ~outcome.entering[firsts])
    return unequal


def _with_suspects(outcome: Outcome, rows: npt.NDArray[np.int64], next_number: int) -> Outcome:
    """The outcome with these rows, all of them duplicates, as suspects that enter; numbers are given anew."""
    verdicts, entering = outcome.verdicts.copy(), outcome.entering.copy()
    verdicts[rows], entering[rows] = Verdict.SUSPECT, True
    numbers = np.full(len(entering), NO_NUMBER, np.uint64)
    numbers[entering] = np.arange(next_number, next_number + np.count_nonzero(entering), dtype=np.uint64)
    originals = outcome.originals.copy()
    named = None if outcome.named is None else outcome.named.copy()
    entered_before = np.flatnonzero(outcome.entering)
    replaced = None if outcome.replaced is None else outcome.replaced.copy()
    for column in (originals, named, replaced):
        if column is not None:
            own = (column != NO_NUMBER) & (column >= np.uint64(next_number))
            column[own] = numbers[entered_before[(column[own] - np.uint64(next_number)).astype(np.int64)]]
    return replace(
        outcome,
        verdicts=verdicts,
        entering=entering,
        numbers=numbers,
        originals=originals,
        named=named,
        replaced=replaced,
    )
