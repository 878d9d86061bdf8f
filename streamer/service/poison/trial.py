"""Trial of records in a process of their own: a record that ends it, twice and alone, is poison.

A death of a worker proves nothing of the batch that it was at: people, the kernel and a supervisor kill too. A trial
proves it. A child process decodes and fingerprints one record after the other, each within a limit of time that holds in
C code too: the kernel ends the child by an alarm. What the child gives for a sound record is used as it is, so that the
worker need not touch a batch again that killed others.

Starting a process that can fingerprint takes seconds. So one process gets ready and forks the children, each of which
has seen no record before:

    worker -- record --> nursery -- record --> child
           <-- answer --         <-- answer --           or its exit code, and the next record goes to another child

k records that are poison among n cost one start and 2 k + 1 forks at most.
"""

import multiprocessing
import multiprocessing.connection
import os
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import structlog

from streamer.errors import ProcessRefused, RegistryUnavailable, TrialFailed
from streamer.fingerprint.fingerprints import Fingerprints
from streamer.fingerprint.key import HashKey
from streamer.fingerprint.scheme import Scheme, scheme_for
from streamer.observe.process_start import naming_limits
from streamer.records.decode import DeadLetter, Decoder, Document, poison
from streamer.records.record import Record
from streamer.service.pipeline import fingerprint_documents
from streamer.settings.settings import Settings

log = structlog.get_logger(__name__)

START_SECONDS_MAX = 120.0
"""How long the nursery may take until it is ready: it imports, and may have to compile."""

RECORDS_AFTER_POISON = 1_000
"""So many records after the last poison are tried too: poison comes in numbers, and each would cost workers first."""

_ALARM_MARGIN_SECONDS = 10.0
_BEAT_SECONDS = 1.0
_WARM_UP = "<p>杭研大厦 in spring</p>"

Answer = tuple[Document | DeadLetter, Fingerprints]


Failure = RegistryUnavailable | ProcessRefused
"""What is no record's fault."""


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
        self._nursery: _Nursery | None = None
        self._records_suspected = 0

    @property
    def expects_poison(self) -> bool:
        """Whether the next batch is to be tried because poison was among the last RECORDS_AFTER_POISON records tried."""
        return self._records_suspected > 0

    def run(
        self, records: Sequence[Record], progress: Callable[[], None], stop_asked: Callable[[], bool]
    ) -> Tried | None:
        """Try records one after the other; at least one, or None where a stop was asked for before its answer.

        progress    called all the while
        stop_asked  called all the while; True ends the child at once, in whatever record

        Raises TrialFailed and ProcessRefused where no child can be started, and RegistryUnavailable, which is no record's
        fault.
        """
        log.warning(
            "trying every record of a batch in a process of its own", first=records[0].position, count=len(records)
        )
        deadline = time.monotonic() + self._seconds_max
        answers: list[Answer] = []
        is_sound = False
        try:
            if self._nursery is None:
                self._nursery = _Nursery(self._settings, self._fingerprinter.key, progress, stop_asked)
            self._nursery.attend(progress, stop_asked)
            for record in records:
                if answers and (stop_asked() or time.monotonic() > deadline):
                    break
                answers.append(self._try(self._nursery, record))
            is_sound = True
        except _Stopped:
            log.warning("the trial is broken off by a stop", first=records[0].position, tried=len(answers))
        finally:
            if not is_sound or not self.expects_poison:
                self.end()
        if not answers:
            return None
        return Tried([document for document, _ in answers], _joined([prints for _, prints in answers]))

    def _try(self, nursery: "_Nursery", record: Record) -> Answer:
        answer = nursery.ask(record)
        if isinstance(answer, str):
            # Once more, alone in a fresh process: nothing that came before can be the cause.
            answer = nursery.ask(record)
        self._records_suspected = max(0, self._records_suspected - 1)
        if not isinstance(answer, str):
            return answer
        log.error("a record is poison", position=record.position, reason=answer)
        self._records_suspected = RECORDS_AFTER_POISON
        letter = poison(record, answer)
        return letter, fingerprint_documents(self._fingerprinter, [letter])

    def end(self) -> None:
        """End all processes; the next run starts others."""
        if self._nursery is not None:
            self._nursery.end()
            self._nursery = None


class _Nursery:
    """The process that forks children; a child answers records with documents and fingerprints, until one ends it."""

    def __init__(
        self, settings: Settings, key: HashKey, progress: Callable[[], None], stop_asked: Callable[[], bool]
    ) -> None:
        self.attend(progress, stop_asked)
        self._limit_seconds = settings.workers.document_timeout_ms / 1000
        context = multiprocessing.get_context("spawn")
        with naming_limits():
            self._connection, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(settings, key, theirs), name="trial", daemon=True)
            self._process.start()
        theirs.close()
        if not self._arrives(START_SECONDS_MAX) or self._receive() is None:
            self.end()
            raise TrialFailed(
                "a process to try records in did not get ready: see its last lines, and whether memory is short "
                f"(exit code {self._process.exitcode})"
            )

    def attend(self, progress: Callable[[], None], stop_asked: Callable[[], bool]) -> None:
        """Call these from now on; see `Trials.run`."""
        self._progress = progress
        self._stop_asked = stop_asked

    def ask(self, record: Record) -> Answer | str:
        """The answer to a record; where it ended the child, in words how.

        Raises _Stopped, TrialFailed, ProcessRefused and RegistryUnavailable.
        """
        with suppress(BrokenPipeError):
            self._connection.send(record)
        answer = self._receive() if self._arrives(self._limit_seconds + _ALARM_MARGIN_SECONDS) else None
        if answer is None:
            self.end()
            raise TrialFailed(f"the process that tries records ended (exit code {self._process.exitcode})")
        if isinstance(answer, Failure):
            raise answer
        if not isinstance(answer, int):
            return answer
        if answer == -signal.SIGALRM:
            limit_ms = round(self._limit_seconds * 1000)
            return f"decoding and fingerprinting it took longer than workers.document_timeout_ms = {limit_ms}"
        how = signal.Signals(-answer).name if answer < 0 else f"exit code {answer}"
        return f"decoding and fingerprinting it ended the process: {how}"

    def end(self) -> None:
        """End the process and its child, in whatever state."""
        # It kills the child when its connection is closed.
        self._connection.close()
        self._process.join(_BEAT_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _arrives(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not self._connection.poll(_BEAT_SECONDS):
            self._progress()
            if self._stop_asked():
                self.end()
                raise _Stopped
            if time.monotonic() > deadline:
                return False
        self._progress()
        return True

    def _receive(self) -> Answer | Failure | int | None:
        try:
            answer: Answer | Failure | int = self._connection.recv()
        except (EOFError, ConnectionResetError):
            return None
        return answer


def _serve(settings: Settings, key: HashKey, connection: Connection) -> None:
    """Body of the nursery: ready once it fingerprinted its own text; then its children answer, until the worker hangs up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    decoder, fingerprinter = Decoder(settings.decode), scheme_for(settings, key)
    warm = Document("", _WARM_UP, "", 0, None, ())
    connection.send((warm, fingerprint_documents(fingerprinter, [warm])))
    child: _Child | None = None
    while True:
        try:
            record: Record = connection.recv()
            child = child or _Child(settings, decoder, fingerprinter, connection)
        except EOFError:
            break
        except ProcessRefused as refusal:
            connection.send(refusal)
            continue
        answer = child.ask(record, connection)
        if answer is None:
            break
        if isinstance(answer, int):
            child = None
        connection.send(answer)
    if child is not None:
        child.kill()


class _Child:
    """A fork of the nursery, which answers records."""

    def __init__(self, settings: Settings, decoder: Decoder, fingerprinter: Scheme, asking: Connection) -> None:
        """`asking`: the nursery's own connection, which the child has no use for. Raises ProcessRefused."""
        with naming_limits():
            self._connection, theirs = multiprocessing.Pipe()
            self._number = os.fork()
        if self._number:
            theirs.close()
            return
        # The child: it must never return into what the nursery does.
        code = 1
        try:
            asking.close()
            self._connection.close()
            _answer(theirs, decoder, fingerprinter, settings.workers.document_timeout_ms / 1000)
            code = os.EX_OK
        finally:
            if code:
                traceback.print_exc()
            os._exit(code)

    def ask(self, record: Record, asking: Connection) -> Answer | RegistryUnavailable | int | None:
        """The answer to a record; the exit code of the child where it ended; None where the worker hung up."""
        try:
            self._connection.send(record)
            if asking in multiprocessing.connection.wait([self._connection, asking]):
                # The worker asks one question at a time: it hung up.
                return None
            answer: Answer | RegistryUnavailable = self._connection.recv()
        except (EOFError, OSError):
            self._connection.close()
            return os.waitstatus_to_exitcode(os.waitpid(self._number, 0)[1])
        return answer

    def kill(self) -> None:
        """End it in whatever state."""
        os.kill(self._number, signal.SIGKILL)
        os.waitpid(self._number, 0)


def _answer(connection: Connection, decoder: Decoder, fingerprinter: Scheme, limit_seconds: float) -> None:
    """Body of a child: it answers every record, until the nursery hangs up."""
    _go_first_where_memory_is_short()
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
