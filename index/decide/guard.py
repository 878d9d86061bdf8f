"""The host guard: counts near but unequal duplicates by host, and lets those beyond the limits pass if configured.

The sketch is part of the file and counts each decision once, in the deciding transaction. So crashes, replays and other
processes agree on it.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from index.decide.prepare import Prepared
from index.entry import EXTENDING, HostShare, Kind, Verdict
from index.kernels.versions import MINOR, RETURNED
from index.matching.host_sketch import NO_HOST
from index.matching.outcome import Outcome
from index.session import ReadSession, WriteSession
from index.storage.layout import HOSTS_KEY, Table, pack_hosts, unpack_hosts


def guarded(
    session: WriteSession, chunk: Prepared, outcome: Outcome, equal: npt.NDArray[np.bool_]
) -> tuple[Outcome, list[HostShare]]:
    """Count decided rows by host; does nothing for rows without hosts. Returns also the hosts that crossed the limits.

    With `Guard.suspects` an unequal duplicate becomes SUSPECT if its host was already beyond the limits. A suspect
    enters, so its copies equal an entry. Suspects count as the duplicates they would have been.

    equal  bool [n], NEAR rows with the fingerprint of an entry that is not retired
    """
    if not (chunk.hosts != NO_HOST).any():
        return outcome, []
    limits = session.opened.guard.limits
    before = unpack_hosts(session.transaction.get(Table.META, HOSTS_KEY))
    unequal = _unequal(chunk, outcome, equal)
    sketch = before.with_rows(chunk.hosts, chunk.entries.hosts or (), unequal, limits)
    session.transaction.put(Table.META, HOSTS_KEY, pack_hosts(sketch))
    if session.opened.guard.suspects and unequal.any():
        # A document that extends its match is no duplicate, and counts all the same: padding makes floods, too.
        suspects = unequal & (outcome.verdicts == Verdict.DUPLICATE)
        beyond = np.flatnonzero(suspects & before.beyond_before(chunk.hosts, unequal, limits))
        # Copies of one suspect stay duplicates: only the first row of equals enters.
        _, places = np.unique(chunk.firsts[beyond], return_index=True)
        outcome = _with_suspects(outcome, beyond[places])
    return outcome, sketch.crossed(before)


def foreseen(session: ReadSession, chunk: Prepared, outcome: Outcome, equal: npt.NDArray[np.bool_]) -> Outcome:
    """Outcome of `guarded` for each row alone; counts nothing."""
    guard, hosts = session.opened.guard, chunk.hosts
    if not guard.suspects or not (hosts != NO_HOST).any():
        return outcome
    before = unpack_hosts(session.transaction.get(Table.META, HOSTS_KEY))
    unequal = _unequal(chunk, outcome, equal)
    beyond = unequal & (outcome.verdicts == Verdict.DUPLICATE) & before.are_beyond(hosts, guard.limits)
    return _with_suspects(outcome, np.flatnonzero(beyond))


def _unequal(chunk: Prepared, outcome: Outcome, equal: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    # Pages whose counters change, or that return to an earlier text, are no flood.
    unequal: npt.NDArray[np.bool_] = np.isin(outcome.verdicts, (Verdict.DUPLICATE, *EXTENDING))
    unequal &= (outcome.marks != MINOR) & (outcome.marks != RETURNED)
    unequal &= (chunk.entries.kinds == Kind.NEAR) & (outcome.distances != 0)
    # An equal row may have entered in an earlier batch or earlier in this one.
    firsts = chunk.firsts
    unequal &= ~equal & ((firsts == np.arange(len(firsts))) | ~outcome.entering[firsts])
    return unequal


def _with_suspects(outcome: Outcome, rows: npt.NDArray[np.int64]) -> Outcome:
    verdicts, entering = outcome.verdicts.copy(), outcome.entering.copy()
    verdicts[rows], entering[rows] = Verdict.SUSPECT, True
    return replace(outcome, verdicts=verdicts, entering=entering)
