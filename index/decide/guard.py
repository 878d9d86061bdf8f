"""The guard: counts near but unequal duplicates by host, in the transaction that decides them.

The sketch stands in the file and counts what is decided, once. So a crash, a replay and another process see the same.
"""

import numpy as np
import numpy.typing as npt

from index.decide.prepare import Prepared
from index.decide.rule import Outcome
from index.entry import HostShare, Verdict
from index.lsm.simhash_lookup import first_of_equals
from index.matching.host_sketch import NO_HOST
from index.session import WriteSession
from index.storage.layout import HOSTS_KEY, Table, pack_hosts, unpack_hosts


def watch(session: WriteSession, portion: Prepared, outcome: Outcome, equal: npt.NDArray[np.bool_]) -> list[HostShare]:
    """Count decided rows by their hosts; returns the hosts that crossed the limits. Without a host it costs nothing.

    equal  bool [n], NEAR rows whose fingerprint equals that of an entry that is not retired
    """
    if not (portion.hosts != NO_HOST).any():
        return []
    before = unpack_hosts(session.transaction.get(Table.META, HOSTS_KEY))
    unequal = _unequal(portion, outcome, equal)
    sketch = before.with_rows(portion.hosts, portion.entries.hosts or (), unequal, session.guard.limits)
    session.transaction.put(Table.META, HOSTS_KEY, pack_hosts(sketch))
    return sketch.crossed(before)


def _unequal(portion: Prepared, outcome: Outcome, equal: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Near but unequal duplicates, bool [n]: their fingerprint equals that of no entry, earlier rows that enter among them."""
    firsts = portion.near[first_of_equals(portion.entries.fingerprints[portion.near])]
    unequal = np.zeros(len(outcome.verdicts), np.bool_)
    unequal[portion.near] = (firsts == portion.near) | ~outcome.entering[firsts]
    unequal &= (outcome.verdicts == Verdict.DUPLICATE) & (outcome.distances != 0) & ~equal
    return unequal
