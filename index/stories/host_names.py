"""Host names by digest: the log keeps digests only."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from index.storage.layout import NUMBER_KEY, Table, pack_text, unpack_text
from index.storage.store import Transaction

KNOWN_MAX = 2**18
"""Most digests that a process remembers as named."""


def note(
    transaction: Transaction, digests: npt.NDArray[np.uint32], hosts: Sequence[str | None], known: set[int]
) -> None:
    """Note each host's name once, by digest, uint32 [n]. known: digests that this process has seen named."""
    name_of = dict(zip(digests.tolist(), hosts, strict=True))
    new = sorted(digest for digest in name_of.keys() - known if name_of[digest])
    if new:
        named = names_of(transaction, new).keys()
        if len(known) > KNOWN_MAX:
            known.clear()
        # This transaction may fail, so what it names is not known yet.
        known.update(named)
        unnamed = [digest for digest in new if digest not in named]
        names = [pack_text(name_of[digest] or "") for digest in unnamed]
        transaction.put_all(Table.HOST_NAMES, list(map(NUMBER_KEY.pack, unnamed)), names)


def names_of(transaction: Transaction, digests: Sequence[int]) -> dict[int, str]:
    """Names by digest; omits unknown ones."""
    named = transaction.get_many(Table.HOST_NAMES, list(map(NUMBER_KEY.pack, digests)))
    return {NUMBER_KEY.unpack(key)[0]: unpack_text(name) for key, name in named}
