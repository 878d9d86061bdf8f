"""A count of documents without a host, and a warning: site templates need hosts."""

from collections.abc import Sequence

import structlog

from streamer.records.decode import DeadLetter, Document
from streamer.settings.settings import Decode

log = structlog.get_logger(__name__)

DOCUMENTS = 1_000
"""Documents examined first in a run."""

DOCUMENTS_MIN = 100
"""Fewest documents for a warning in a shorter run."""


def remedy(decode: Decode) -> str:
    """Advice for a run whose documents have no hosts."""
    named = "" if decode.format == "text" else "Name the field with the host or URL in decode.host. "
    return named + 'If documents have none, set decode.host_scope = "none".'


class MissingHosts:
    """Counts documents without a host, and warns once if a run's first ones all lack it."""

    def __init__(self, decode: Decode, *, expected: bool) -> None:
        """`expected`: whether documents should have hosts, see `needs_hosts`."""
        self._counts = self._watches = expected
        self._remedy = remedy(decode)
        self._count = 0

    def see(self, documents: Sequence[Document | DeadLetter]) -> int:
        """Examine the next documents; returns how many lack a needed host."""
        if not self._counts:
            return 0
        hosts = [document.host for document in documents if isinstance(document, Document)]
        without = hosts.count(None)
        self._count += len(hosts)
        if without < len(hosts):
            self._watches = False
        elif self._watches and self._count >= DOCUMENTS:
            self._warn()
        return without

    def end(self) -> None:
        """Warn at the end of a short run."""
        if self._watches and self._count >= DOCUMENTS_MIN:
            self._warn()

    def _warn(self) -> None:
        self._watches = False
        log.warning(
            "no document names a host, so templates of sites are not learnt",
            documents=self._count,
            remedy=self._remedy,
        )
