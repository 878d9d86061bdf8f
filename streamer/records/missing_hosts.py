"""A count of documents that name no host, and a warning: without hosts no templates of sites are learnt."""

from collections.abc import Sequence

import structlog

from streamer.records.decode import DeadLetter, Document
from streamer.settings.settings import Settings

log = structlog.get_logger(__name__)

DOCUMENTS = 1_000
"""First documents of a run that are looked at."""

DOCUMENTS_MIN = 100
"""Of a run that ends before, at least so many: a handful says nothing of a crawl."""


def needs_hosts(settings: Settings) -> bool:
    """Whether frames of hosts are learnt, and documents are expected to name one."""
    index = settings.index
    return (
        settings.fingerprint.scheme == "minhash"
        and index.insert == "root"
        and index.templates
        and settings.decode.host_scope != "none"
    )


def remedy(settings: Settings) -> str:
    """What to do where no document names a host."""
    named = "" if settings.decode.format == "text" else "Name the field with the host or URL in decode.host. "
    return named + 'If documents have none, set decode.host_scope = "none".'


class MissingHosts:
    """Counts documents that name no host, and warns once where none of a run's first ones does."""

    def __init__(self, settings: Settings) -> None:
        self._counts = self._watches = needs_hosts(settings)
        self._remedy = remedy(settings)
        self._count = 0

    def see(self, documents: Sequence[Document | DeadLetter]) -> int:
        """Look at the next documents of the run. Returns how many of them name no host; 0 where none needs to."""
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
        """Say what is known at the end of the run's input."""
        if self._watches and self._count >= DOCUMENTS_MIN:
            self._warn()

    def _warn(self) -> None:
        self._watches = False
        log.warning(
            "no document names a host, so templates of sites are not learnt",
            documents=self._count,
            remedy=self._remedy,
        )
