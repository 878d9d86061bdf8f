"""The host guard: counts near but unequal duplicates by host, and lets those of a host beyond the limits pass if
configured.

It runs in the deciding transaction. The sketch is part of the file and counts each decision once, so crashes, replays
and other processes agree on it.
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
    """Outcome of the rows and the hosts that crossed the limits."""

    outcome: Outcome
    crossings: list[HostShare]


def guarded(session: WriteSession, portion: Prepared, outcome: Outcome, equal: npt.NDArray[np.bool_]) -> Guarded:
    """Count decided rows by host; does nothing for rows without hosts.

    With `Guard.suspects` an unequal duplicate becomes SUSPECT if its host was already beyond the limits. A suspect
    enters, so its copies equal an entry. Suspects count as the duplicates they would have been.

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
        # Copies of one suspect stay duplicates: only the first row of equals enters.
        _, places = np.unique(portion.firsts[beyond], return_index=True)
        outcome = _with_suspects(outcome, beyond[places], session.counters.next_number)
    return Guarded(outcome, sketch.crossed(before))


def foreseen(
    session: ReadSession, portion: Prepared, outcome: Outcome, equal: npt.NDArray[np.bool_], next_number: int
) -> Outcome:
    """Outcome of `guarded` for each row if it came alone; counts nothing.

    next_number  the entering rows' first number in `outcome`
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
        # Pages whose counters change are no flood.
        unequal &= ~outcome.minor
    unequal &= (portion.entries.kinds == Kind.NEAR) & (outcome.distances != 0)
    # An equal row may have entered in an earlier batch or earlier in this one.
    firsts = portion.firsts
    unequal &= ~equal & ((firsts == np.arange(len(firsts))) | ~outcome.entering[firsts])
    return unequal


def _with_suspects(outcome: Outcome, rows: npt.NDArray[np.int64], next_number: int) -> Outcome:
    """Turn these duplicates into suspects that enter, and renumber the entering rows."""
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
            # next_number 10, rows 0 and 2 enter as 10 and 11. If row 1 becomes a suspect it is 11, and references to 11 become
            # 12.
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
