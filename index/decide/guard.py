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
from index.entry import HostShare, Verdict
from index.lsm.simhash_lookup import first_of_equals
from index.matching.host_sketch import NO_HOST
from index.session import WriteSession
from index.storage.layout import HOSTS_KEY, Table, pack_hosts, unpack_hosts


class Guarded(NamedTuple):
    """Outcome of rows after the guard, and the hosts that crossed the limits."""

    outcome: Outcome
    crossings: list[HostShare]


def guarded(session: WriteSession, portion: Prepared, outcome: Outcome, equal: npt.NDArray[np.bool_]) -> Guarded:
    """Count decided rows by their hosts. Without a host it costs nothing.

    With `Guard.suspects` an unequal duplicate is SUSPECT where its host was beyond the limits before it, if it enters: what
    does not enter is as good as equal to an entry. Suspects count as the duplicates that they would have been.

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
        suspect = unequal & outcome.entering & before.beyond_before(portion.hosts, unequal, limits)
        verdicts = np.where(suspect, np.uint8(Verdict.SUSPECT), outcome.verdicts)
        outcome = replace(outcome, verdicts=verdicts)
    return Guarded(outcome, sketch.crossed(before))


def _unequal(portion: Prepared, outcome: Outcome, equal: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Near but unequal duplicates, bool [n]: their fingerprint equals that of no entry, earlier rows that enter among them."""
    firsts = portion.near[first_of_equals(portion.entries.fingerprints[portion.near])]
    unequal = np.zeros(len(outcome.verdicts), np.bool_)
    unequal[portion.near] = (firsts == portion.near) | ~outcome.entering[firsts]
    unequal &= (outcome.verdicts == Verdict.DUPLICATE) & (outcome.distances != 0) & ~equal
    return unequal
