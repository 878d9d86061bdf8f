"""A look at a run's first records: wrong input is named, and so are documents without hosts, which templates need."""

from collections import Counter
from collections.abc import Sequence

import structlog

from index import Verdict
from streamer.records.decode import DeadLetter, Document
from streamer.records.reason import Reason, label
from streamer.settings.settings import Decode

log = structlog.get_logger(__name__)

DOCUMENTS = RECORDS = 1_000
"""Documents, and records, examined first in a run."""

DEAD_SHARE = 0.9
"""Share of dead letters for one reason that makes an input a wrong one."""

_REMEDIES = {
    Reason.NO_TEXT: "Name the field with the text in decode.text.",
    Reason.TEXT_NOT_STRING: "Name the field with the text in decode.text.",
    Reason.NOT_JSON: "Set decode.format to what the values are.",
    Reason.NOT_UTF_8: "Name the values' charset in decode.charset, or convert them to UTF-8.",
    Reason.TOO_LARGE: "Raise decode.value_bytes_max or decode.characters_max.",
    Reason.NOT_OF_REGISTRY: "Set decode.format to what the values are.",
    Reason.SCHEMA_UNKNOWN: "Name the registry with the values' schemas in decode.registry_url.",
    Reason.NOT_AVRO: "Set decode.format to what the values are.",
}
"""What to do about wrong input, by the dead letters' reason."""

_ADVICE = "this "
"""What a detail begins with that says itself what to do."""

DOCUMENTS_MIN = 100
"""Fewest documents for a warning in a shorter run."""


def remedy(decode: Decode) -> str:
    """Advice for a run whose documents have no hosts."""
    named = "" if decode.format == "text" else "Name the field with the host or URL in decode.host. "
    return named + 'If documents have none, set decode.host_scope = "none".'


class MissingHosts:
    """Counts documents without a host, and warns once if a run's first ones all lack it.

    >>> look = MissingHosts(Decode(), expected=True)
    >>> look.see([Document("a", "text"), Document("b", "text", host="example.org")])
    1
    """

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
            "no document names a host, so templates of sites are not learnt", documents=self._count, remedy=self._remedy
        )


class WrongInput:
    """Counts the dead letters among the first records, by reason.

    >>> look = WrongInput()
    >>> look.count([DeadLetter(Reason.NO_TEXT, "there is no text at /text; the keys are: body", None)])
    >>> look.complaint()
    '1 of the first 1 records is a dead letter (no-text): ...; the keys are: body. Name the field with the text in decode.text.'
    """

    def __init__(self) -> None:
        self.records = 0
        self._details: dict[Reason, str] = {}
        self._dead: Counter[Reason] = Counter()
        self._watches = True

    @property
    def dead_letters(self) -> int:
        """Dead letters among the examined records."""
        return self._dead.total()

    def count(self, documents: Sequence[Document | DeadLetter]) -> None:
        """Examine the next documents, up to RECORDS in all."""
        for document in documents[: RECORDS - self.records]:
            self.records += 1
            if isinstance(document, DeadLetter):
                self._dead[document.reason] += 1
                self._details.setdefault(document.reason, document.detail)

    def see(self, documents: Sequence[Document | DeadLetter]) -> None:
        """Count the next documents, and warn once RECORDS are known as wrong input."""
        if self._watches:
            self.count(documents)
            if self.records == RECORDS:
                self.end()

    def end(self) -> None:
        """Warn of wrong input at the end of a short run."""
        if self._watches and (complaint := self.complaint()):
            log.warning(complaint)
        self._watches = False

    def complaint(self) -> str | None:
        """One line about wrong input, with an example and what to do; None if enough records are documents."""
        count = sum(count for reason, count in self._dead.items() if reason in _REMEDIES)
        return self.reasons() if self._dead and count >= DEAD_SHARE * self.records else None

    def reasons(self) -> str:
        """Every reason, the most frequent first, with an example and what to do about it."""
        dead = self.dead_letters
        are = "is a dead letter" if dead == 1 else "are dead letters"
        begin = f"{dead:,} of the first {self.records:,} records {are}"
        if len(self._dead) == 1:
            ((reason, _),) = self._dead.items()
            return f"{begin} ({label(Verdict.DEAD_LETTER, reason)}): {self._advice(reason)}"
        return " ".join(
            [
                f"{begin}.",
                *(
                    f"{count:,} {label(Verdict.DEAD_LETTER, reason)}: {self._advice(reason)}"
                    for reason, count in self._dead.most_common()
                ),
            ]
        )

    def _advice(self, reason: Reason) -> str:
        detail = self._details[reason]
        return (
            f"{detail}." if detail.startswith(_ADVICE) or reason not in _REMEDIES else f"{detail}. {_REMEDIES[reason]}"
        )


class OddTimes:
    """Counts documents whose time is not understood, and warns once with an example.

    >>> look = OddTimes()
    >>> look.see([Document("a", "text"), DeadLetter(Reason.NOT_JSON, "", None)])
    0
    """

    def __init__(self) -> None:
        self._watches = True

    def see(self, documents: Sequence[Document | DeadLetter]) -> int:
        """Examine the next documents; returns how many have such a time."""
        odd = [document for document in documents if isinstance(document, Document) and document.odd_time]
        if odd and self._watches:
            self._watches = False
            log.warning(
                "a time is not understood, so the record's own counts",
                id=odd[0].id,
                time=odd[0].odd_time,
                remedy="Name the field with the time in decode.time, in a form of docs/inputs.md.",
            )
        return len(odd)


class MissingScopes:
    """Counts documents without a scope, if decode.scope is set, and warns once with an example.

    >>> MissingScopes().see([Document("tenant-a/1", "text", scope="tenant-a"), Document("2", "text")])
    0
    """

    def __init__(self) -> None:
        self._watches = True

    def see(self, documents: Sequence[Document | DeadLetter]) -> int:
        """Examine the next documents; returns how many are in the empty scope."""
        without = [document for document in documents if isinstance(document, Document) and document.scope == ""]
        if without and self._watches:
            self._watches = False
            log.warning(
                "a document has no scope, so it is compared with all others without one",
                id=without[0].id,
                remedy="Name a field with a text or a number in decode.scope.",
            )
        return len(without)
