"""Negative control: an index that forgets which positions it has decided."""

import numpy as np
import numpy.typing as npt
import pytest

from index.storage import journal
from index.storage.journal import JournaledDecisions
from index.storage.store import Transaction


def forget_positions(patch: pytest.MonkeyPatch) -> None:
    """Let no batch find or note the positions of its rows: each delivery is decided anew."""

    def find(
        transaction: Transaction,
        stream: int,
        partition: int,
        offsets: npt.NDArray[np.uint64],
        words: int,
    ) -> JournaledDecisions:
        return JournaledDecisions(np.zeros(len(offsets), journal.DECISION), np.zeros(len(offsets), np.bool_), {})

    patch.setattr(journal, "find", find)
    patch.setattr(journal, "add", lambda *_: None)
