"""What the log says about decisions, at once: a decision happens once, and another worker may deliver its batch."""

from collections.abc import Sequence

import numpy as np
import structlog

from index import Decisions, Verdict
from streamer.records.reason import Reason

log = structlog.get_logger(__name__)


class SharedIds:
    """Warns once of an id that names no page.

    >>> shared = SharedIds()
    """

    def __init__(self) -> None:
        self._watches = True

    def see(self, ids: Sequence[str], decisions: Decisions) -> None:
        """Examine decisions on documents with these ids, row for row."""
        if not self._watches:
            return
        shared = (decisions.verdicts == Verdict.UNIQUE) & (decisions.reasons == Reason.SHARED_ID)
        if shared.any():
            self._watches = False
            log.warning(
                "an id names one unrelated text after the other, so none of them replaces another",
                id=ids[int(np.argmax(shared))],
                remedy="Let decode.id name a field that tells documents apart, or set index.recrawl = 'duplicate'.",
            )


def log_crossings(decisions: Decisions) -> None:
    """Log hosts that crossed the guard's limits with a batch, in either direction."""
    for host, documents, unequal, beyond in decisions.crossings:
        if beyond:
            log.warning("host beyond guard.share_max", host=host, recent_documents=documents, unequal=unequal)
        else:
            log.info("host no longer beyond guard.share_max", host=host, recent_documents=documents, unequal=unequal)
