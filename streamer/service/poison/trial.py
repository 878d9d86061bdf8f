"""Trial of records in a process of their own: a record that ends it, twice and alone, is poison.

A death of a worker proves nothing of the batch that it was at: people, the kernel and a supervisor kill too. A trial
proves it. A child process decodes and fingerprints one record after the other, each within a limit of time that holds in
C code too: the kernel ends the child by an alarm. What the child gives for a sound record is used as it is, so that the
worker need not touch a batch again that killed others.
"""

import multiprocessing
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import structlog

from streamer.errors import RegistryUnavailable, TrialFailed
from streamer.fingerprint.fingerprints import Fingerprints
from streamer.fingerprint.scheme import Scheme, scheme_for
from streamer.records.decode import DeadLetter, Decoder, Document, poison
from streamer.records.record import Record
from streamer.service.pipeline import fingerprint_documents
from streamer.settings.settings import Settings

log = structlog.get_logger(__name__)

START_SECONDS_MAX = 120.0
"""How long a child may take until it is ready: it imports, and may have to compile."""

_ALARM_MARGIN_SECONDS = 10.0
_BEAT_SECONDS = 1.0
_WARM_UP = "<p>杭研大厦 in spring</p>"

Answer = tuple[Document | DeadLetter, Fingerprints]


class _Stopped(Exception):
    """A stop was asked for, and the child is gone; of the record that it was at nothing is known."""


@dataclass(frozen=True, slots=True)
class Tried:
    """Documents and fingerprints of the first records of a batch, row for row; of all, unless time was short or a stop came."""

    documents: list[Document | DeadLetter]
    fingerprints: Fingerprints


class Trials:
    """Tries records in child processes."""

    def __init__(self, settings: Settings, fingerprinter: Scheme, *, seconds_max: float) -> None:
        """`seconds_max`: no further record is begun with after this time; the first always is."""
        self._settings = settings
        self._fingerprinter = fingerprinter
        self._seconds_max = seconds_max

    def run(
        self, records: Sequence[Record], progress: Callable[[], None], stop_asked: Callable[[], bool]
    ) -> Tried | None:
        """Try records one after the other; at least one, or None where a stop was asked for before its answer.

        progress    called all the while
        stop_asked  called all the while; True ends the child at once, in whatever record

        Raises TrialFailed where no child can be started, and RegistryUnavailable, which is no record's fault.
        """
        log.warning(
            "trying every record of a batch in a process of its own", first=records[0].position, count=len(records)
        )
        deadline = time.monotonic() + self._seconds_max
        answers: list[Answer] = []
        child: _Child | None = None
        try:
            for record in records:
                if answers and (stop_asked() or time.monotonic() > deadline):
                    break
                child = child or _Child(self._settings, progress, stop_asked)
                answer = child.ask(record)
                if isinstance(answer, str):
                    # Once more, alone in a fresh process: nothing that came before can be the cause.
                    child = _Child(self._settings, progress, stop_asked)
                    answer = child.ask(record)
                if isinstance(answer, str):
                    child = None
                    log.error("a record is poison", position=record.position, reason=answer)
                    letter = poison(record, answer)
                    answer = letter, fingerprint_documents(self._fingerprinter, [letter])
                answers.append(answer)
        except _Stopped:
            log.warning("the trial is broken off by a stop", first=records[0].position, tried=len(answers))
        finally:
            if child is not None:
                child.end()
        if not answers:
            return None
        return Tried([document for document, _ in answers], _joined([prints for _, prints in answers]))


class _Child:
    """A process that answers records with documents and fingerprints, until one ends it."""

    def __init__(self, settings: Settings, progress: Callable[[], None], stop_asked: Callable[[], bool]) -> None:
        self._progress = progress
        self._stop_asked = stop_asked
        self._limit_seconds = settings.workers.document_timeout_ms / 1000
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(settings, theirs), name="trial", daemon=True)
        self._process.start()
        theirs.close()
        if not self._arrives(START_SECONDS_MAX) or self._receive() is None:
            self.end()
            raise TrialFailed(
                "a process to try records in did not get ready: see its last lines, and whether memory is short "
                f"(exit code {self._process.exitcode})"
            )

    def ask(self, record: Record) -> Answer | str:
        """The answer to a record; where it ended the process, in words how. Raises _Stopped, RegistryUnavailable."""
        with suppress(BrokenPipeError):
            self._connection.send(record)
        if self._arrives(self._limit_seconds + _ALARM_MARGIN_SECONDS):
            answer = self._receive()
            if isinstance(answer, RegistryUnavailable):
                raise answer
            if answer is not None:
                return answer
            # It is on its way out; its exit code tells more than a kill would.
            self._process.join(_ALARM_MARGIN_SECONDS)
        self.end()
        code = self._process.exitcode or 0
        if code == -signal.SIGALRM:
            limit_ms = round(self._limit_seconds * 1000)
            return f"decoding and fingerprinting it took longer than workers.document_timeout_ms = {limit_ms}"
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return f"decoding and fingerprinting it ended the process: {how}"

    def end(self) -> None:
        """End the process, in whatever state."""
        self._connection.close()
        self._process.join(_BEAT_SECONDS)
        if self._process.is_alive():
            self._kill()

    def _kill(self) -> None:
        self._connection.close()
        self._process.kill()
        self._process.join()

    def _arrives(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not self._connection.poll(_BEAT_SECONDS):
            self._progress()
            if self._stop_asked():
                self._kill()
                raise _Stopped
            if time.monotonic() > deadline:
                return False
        self._progress()
        return True

    def _receive(self) -> Answer | RegistryUnavailable | None:
        try:
            answer: Answer | RegistryUnavailable = self._connection.recv()
        except (EOFError, ConnectionResetError):
            return None
        return answer


def _serve(settings: Settings, connection: Connection) -> None:
    """Body of a child: ready once it answered its own text; then it answers every record, until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    _go_first_where_memory_is_short()
    decoder, fingerprinter = Decoder(settings.decode), scheme_for(settings)
    limit_seconds = settings.workers.document_timeout_ms / 1000
    warm = Document("", _WARM_UP, "", 0, None, ())
    connection.send((warm, fingerprint_documents(fingerprinter, [warm])))
    while True:
        try:
            record: Record = connection.recv()
        except EOFError:
            return
        try:
            decoder.look_up([record])
        except RegistryUnavailable as error:
            connection.send(error)
            continue
        signal.setitimer(signal.ITIMER_REAL, limit_seconds)
        try:
            documents = decoder.decode([record])
            fingerprints = fingerprint_documents(fingerprinter, documents)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        connection.send((documents[0], fingerprints))


def _go_first_where_memory_is_short() -> None:
    """Let the kernel choose this process before all others when memory runs out."""
    score = Path("/proc/self/oom_score_adj")
    if score.exists():
        score.write_text("1000")


def _joined(parts: Sequence[Fingerprints]) -> Fingerprints:
    looks = [part.looks for part in parts if part.looks is not None]
    return Fingerprints(
        np.concatenate([part.kinds for part in parts]),
        np.concatenate([part.reasons for part in parts]),
        np.concatenate([part.fingerprints for part in parts]),
        np.concatenate([part.feature_counts for part in parts]),
        np.concatenate(looks) if looks else None,
    )
