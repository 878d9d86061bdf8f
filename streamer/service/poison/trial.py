"""Trial of records in separate processes: poison ends its process twice, the second time alone.

A worker's death proves nothing about its batch: people and the kernel kill too. A child process decodes and fingerprints the
records, under an alarm that works even in C code: RECORDS_TOGETHER at once, and one by one if they end it. The worker uses the
child's results, so it never touches a deadly batch.

One process prepares, for seconds, and forks children that have seen no record yet:

    worker -- records --> nursery -- records --> child
           <-- answer  --         <-- answer  --           or its exit code, and the next record goes to another child

k poison records among n cost one start and at most 3 k + 1 forks.
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

import structlog

from streamer.errors import ProcessRefused, RegistryUnavailable, SettingsError, TrialFailed
from streamer.fingerprint.documents import fingerprint_documents
from streamer.fingerprint.fingerprints import Fingerprints, joined
from streamer.fingerprint.key import HashKey
from streamer.fingerprint.scheme import Scheme, scheme_for
from streamer.observe.process_start import naming_limits
from streamer.packages import imports_named
from streamer.records.decode import DeadLetter, Decoder, Document, poison
from streamer.records.record import Record
from streamer.settings.settings import Settings

log = structlog.get_logger(__name__)

START_SECONDS_MAX = 120.0
"""Longest start of the nursery: it imports, and may have to compile."""

RECORDS_AFTER_POISON = 1_000
"""Records tried after the last poison: more is likely, and each would first cost workers."""

RECORDS_TOGETHER = 256
"""Records tried at once where no poison is expected: most deaths have another cause, and one by one 4,000 took 8 s."""

_ALARM_MARGIN_SECONDS = 10.0
_BEAT_SECONDS = 1.0
_WARM_UP = "<p>杭研大厦 in spring</p>"

Answer = tuple[list[Document | DeadLetter], Fingerprints]


Failure = RegistryUnavailable | ProcessRefused | SettingsError
"""Errors that no record causes."""


class _Stopped(Exception):
    """A stop ended the child; its record is undecided."""


@dataclass(frozen=True, slots=True)
class Tried:
    """Documents and fingerprints, row for row; only the first records after a time-out or stop.

    >>> prints = scheme_for(Settings()).fingerprint(["a text"])
    >>> len(Tried([Document("a", "a text")], prints).fingerprints)
    1
    """

    documents: list[Document | DeadLetter]
    fingerprints: Fingerprints


class Trials:
    """Trials of records in child processes.

    >>> from streamer.fingerprint.scheme import scheme_for
    >>> settings = Settings()
    >>> Trials(settings, scheme_for(settings), seconds_max=30.0).expects_poison
    False
    """

    def __init__(self, settings: Settings, fingerprinter: Scheme, *, seconds_max: float) -> None:
        """seconds_max: no record except the first begins after this time."""
        self._settings, self._fingerprinter, self._seconds_max = settings, fingerprinter, seconds_max
        self._nursery: _Nursery | None = None
        self._records_suspected = 0

    @property
    def expects_poison(self) -> bool:
        """Whether to try the next batch: poison was among the last RECORDS_AFTER_POISON tried records."""
        return self._records_suspected > 0

    def run(
        self, records: Sequence[Record], progress: Callable[[], None], stop_asked: Callable[[], bool]
    ) -> Tried | None:
        """Try records, at least one; None after a stop before the first answer.

        progress    called all the while
        stop_asked  called all the while; True ends the child at once

        Raises TrialFailed and each Failure.
        """
        log.warning(
            "trying the records of a batch in a process of their own", first=records[0].position, count=len(records)
        )
        deadline = time.monotonic() + self._seconds_max
        answers: list[Answer] = []
        is_sound = False
        try:
            if self._nursery is None:
                self._nursery = _Nursery(self._settings, self._fingerprinter.key, progress, stop_asked)
            self._nursery.attend(progress, stop_asked)
            place, alone_until = 0, 0
            while place < len(records) and not (answers and (stop_asked() or time.monotonic() > deadline)):
                together = records[place : place + RECORDS_TOGETHER]
                if self.expects_poison or place < alone_until or len(together) == 1:
                    answers.append(self._try(self._nursery, together[0]))
                elif isinstance(answer := self._nursery.ask(together), str):
                    # One of them, or somebody else, ended the child.
                    alone_until = place + len(together)
                    continue
                else:
                    answers.append(answer)
                place += len(answers[-1][0])
            is_sound = True
        except _Stopped:
            tried = sum(len(documents) for documents, _ in answers)
            log.warning("the trial is broken off by a stop", first=records[0].position, tried=tried)
        finally:
            if not is_sound or not self.expects_poison:
                self.end()
        if not answers:
            return None
        documents = [document for some, _ in answers for document in some]
        return Tried(documents, joined([prints for _, prints in answers]))

    def _try(self, nursery: "_Nursery", record: Record) -> Answer:
        answer = nursery.ask([record])
        if isinstance(answer, str):
            # Once more, alone in a fresh process: no earlier record can be the cause.
            answer = nursery.ask([record])
        self._records_suspected = max(0, self._records_suspected - 1)
        if not isinstance(answer, str):
            return answer
        log.error("a record is poison", position=record.position, reason=answer)
        self._records_suspected = RECORDS_AFTER_POISON
        letter = poison(record, answer)
        return [letter], fingerprint_documents(self._fingerprinter, [letter])

    def end(self) -> None:
        """End all processes; the next run starts others."""
        if self._nursery is not None:
            self._nursery.end()
            self._nursery = None


class _Nursery:
    """The process that forks children; each answers records until one ends it."""

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
        """Call these from now on, as in `Trials.run`."""
        self._progress = progress
        self._stop_asked = stop_asked

    def ask(self, records: Sequence[Record]) -> Answer | str:
        """The answer to records, or how they ended the child.

        Raises _Stopped, TrialFailed and a Failure.
        """
        with suppress(BrokenPipeError):
            self._connection.send(records)
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
        """End the process and its child, in any state."""
        # The process kills its child once its connection is closed.
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
    """Body of the nursery: it fingerprints a text, reports ready, and forks until the connection closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    decoder, fingerprinter = Decoder(settings.decode), scheme_for(settings, key)
    warm = Document("", _WARM_UP)
    connection.send(([warm], fingerprint_documents(fingerprinter, [warm])))
    child: _Child | None = None
    while True:
        try:
            records: Sequence[Record] = connection.recv()
            child = child or _Child(settings, decoder, fingerprinter, connection)
        except EOFError:
            break
        except ProcessRefused as refusal:
            connection.send(refusal)
            continue
        answer = child.ask(records, connection)
        if answer is None:
            break
        if isinstance(answer, int):
            child = None
        connection.send(answer)
    if child is not None:
        child.kill()


class _Child:
    def __init__(self, settings: Settings, decoder: Decoder, fingerprinter: Scheme, asking: Connection) -> None:
        """asking: the nursery's connection, which the child closes. Raises ProcessRefused."""
        with naming_limits():
            self._connection, theirs = multiprocessing.Pipe()
            self._number = os.fork()
        if self._number:
            theirs.close()
            return
        # The child must never return into the nursery's code.
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

    def ask(self, records: Sequence[Record], asking: Connection) -> Answer | Failure | int | None:
        """Answer to records; exit code of an ended child; None if the worker closed the connection."""
        try:
            self._connection.send(records)
            if asking in multiprocessing.connection.wait([self._connection, asking]):
                # The worker asks one question at a time: it closed the connection.
                return None
            answer: Answer | Failure = self._connection.recv()
        except (EOFError, OSError):
            self._connection.close()
            return os.waitstatus_to_exitcode(os.waitpid(self._number, 0)[1])
        return answer

    def kill(self) -> None:
        """End it in any state."""
        os.kill(self._number, signal.SIGKILL)
        os.waitpid(self._number, 0)


def _answer(connection: Connection, decoder: Decoder, fingerprinter: Scheme, limit_seconds: float) -> None:
    _offer_to_oom_killer()
    while True:
        try:
            records: Sequence[Record] = connection.recv()
        except EOFError:
            return
        try:
            # A package that fails says nothing about a record.
            with imports_named():
                connection.send(_in_time(records, decoder, fingerprinter, limit_seconds))
        except (RegistryUnavailable, SettingsError) as error:
            connection.send(error)


def _in_time(records: Sequence[Record], decoder: Decoder, fingerprinter: Scheme, limit_seconds: float) -> Answer:
    decoder.look_up(records)
    signal.setitimer(signal.ITIMER_REAL, limit_seconds)
    try:
        documents = decoder.decode(records)
        return documents, fingerprint_documents(fingerprinter, documents)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _offer_to_oom_killer() -> None:
    """Let the kernel choose this process first when memory runs out."""
    score = Path("/proc/self/oom_score_adj")
    if score.exists():
        score.write_text("1000")
