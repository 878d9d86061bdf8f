"""A process that answers questions: started, watched and ended by the supervisor, which speaks HTTP for it.

A process of its own, for a document may end the one that reads it, or keep it busy: neither may happen to the supervisor.
It has the index open as a worker has, writes nothing, and answers one question after the other.
"""

import faulthandler
import gc
import multiprocessing
import signal
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, NamedTuple

import structlog

from index import errors
from streamer.ask.answers import Answers, Told, told_error
from streamer.ask.filter import Filter
from streamer.errors import ProcessRefused, StreamerError
from streamer.observe.logs import configure_logging
from streamer.observe.process_start import naming_limits
from streamer.service.wiring import exit_code_of
from streamer.service.worker import end_with_parent
from streamer.settings.settings import Settings
from streamer.transports.kafka.output_log import KafkaOutputLog
from streamer.transports.output_log import RecordsAt

log = structlog.get_logger(__name__)

START_SECONDS = 300.0
"""How long the process may take until it answers: it imports, opens the index and reads its newest entries."""

IDLE_SECONDS = 5.0
"""How long the process waits for a question before it looks whether its index is still in place."""

READY = b"ready"


class _Running(NamedTuple):
    process: SpawnProcess
    connection: Connection
    started_seconds: float


class Answerer:
    """The answering process, as the supervisor sees it. `attend` and `end` belong to one thread, `ask` to another."""

    def __init__(self, settings: Settings, body: Callable[..., None] | None = None) -> None:
        """`body`: what the process runs, for tests; it takes the settings and a connection."""
        self._settings = settings
        self._body = body or answer_questions
        self._running: _Running | None = None
        self._is_ready = False
        self._due_seconds = 0.0
        self._backoff_ms = 0
        # When the question under way was asked; None between two.
        self._asked_seconds: float | None = None
        self._asking = threading.Lock()

    @property
    def is_started(self) -> bool:
        """Whether a process runs, ready or not."""
        return self._running is not None

    def attend(self) -> None:
        """Start the process where it does not run, and end it where it takes too long; never waits."""
        now_seconds, running = time.monotonic(), self._running
        if running is None:
            if now_seconds >= self._due_seconds:
                self._start()
        elif not running.process.is_alive():
            self._bury(running)
        elif not self._is_ready:
            if running.connection.poll():
                self._take_note(running)
            elif now_seconds - running.started_seconds > START_SECONDS:
                running.process.kill()
        elif self._is_overdue(now_seconds):
            log.error("answering process killed", reason="no answer within ask.timeout_ms")
            running.process.kill()

    def _is_overdue(self, now_seconds: float) -> bool:
        asked_seconds = self._asked_seconds
        return asked_seconds is not None and now_seconds - asked_seconds > self._settings.ask.timeout_ms / 1000

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        try:
            with naming_limits():
                own, other = context.Pipe()
                # A refused start leaves the connections to be closed with their last reference.
                process = context.Process(target=self._body, args=(self._settings, other), name="answers", daemon=True)
                process.start()
        except ProcessRefused as refusal:
            self._put_off()
            log.error("answering process not started", reason=str(refusal), start_in_ms=self._backoff_ms)
            return
        other.close()
        self._running = _Running(process, own, time.monotonic())

    def _put_off(self) -> None:
        workers = self._settings.workers
        self._backoff_ms = min(max(workers.restart_backoff_ms, 2 * self._backoff_ms), workers.restart_backoff_max_ms)
        self._due_seconds = time.monotonic() + self._backoff_ms / 1000

    def _take_note(self, running: _Running) -> None:
        try:
            self._is_ready = running.connection.recv_bytes() == READY
            self._backoff_ms = 0
        except EOFError:
            # It ended before it could answer; the next call sees that.
            return

    def _bury(self, running: _Running) -> None:
        self._is_ready, self._running = False, None
        running.connection.close()
        self._put_off()
        log.warning("answering process ended", exit_code=running.process.exitcode, restart_in_ms=self._backoff_ms)

    def ask(self, question: str, asked: bytes) -> Told:
        """Answer of the process, see `Answers.tell`; 503 where there is none."""
        with self._asking:
            running = self._running
            if running is None or not self._is_ready:
                return _unanswered("the process that answers is starting: ask again in a few seconds")
            self._asked_seconds = time.monotonic()
            try:
                running.connection.send((question, asked))
                answered: Any = running.connection.recv()
            except (OSError, EOFError):
                return _unanswered(
                    "the process that answers ended over this question, or took longer than ask.timeout_ms"
                )
            finally:
                self._asked_seconds = None
        return Told(HTTPStatus(answered[0]), answered[1])

    def end(self) -> None:
        """End the process; it has nothing to finish."""
        if self._running is not None:
            self._running.process.kill()
            self._running.process.join()
            self._running.connection.close()
            self._running, self._is_ready = None, False


def _unanswered(words: str) -> Told:
    return told_error(HTTPStatus.SERVICE_UNAVAILABLE, "", words)


def _records_at(settings: Settings, opened: Filter) -> RecordsAt:
    """Reader of records from the topics, so hasty that brokers which do not answer leave time to say so."""
    hasty = min(settings.kafka.request_timeout_ms, settings.ask.timeout_ms // 4)
    chosen = settings.model_copy(update={"kafka": settings.kafka.model_copy(update={"request_timeout_ms": hasty})})
    return lambda positions: KafkaOutputLog(chosen).records_at(positions, opened.index.stream_names())


def answer_questions(settings: Settings, connection: Connection) -> None:
    """Body of the answering process: opens the index that a worker has made, and answers until it is ended."""
    configure_logging(settings.observe.log_level, settings.observe.log_format)
    end_with_parent()
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        # Not for reading only: that would go on with an index that was removed or replaced.
        with Filter.open(settings.index.directory, settings) as opened:
            answers = Answers(opened, settings, _records_at(settings, opened) if settings.ask.texts else None)
            answers.warm_up()
            # A collection over all that was imported takes 65 ms, as long as forty answers; it will never find anything.
            gc.collect()
            gc.freeze()
            connection.send_bytes(READY)
            while True:
                while not connection.poll(IDLE_SECONDS):
                    # Raises where the index or its lock file was removed: this process must not keep it from others.
                    opened.index.statistics()
                connection.send(tuple(answers.tell(*connection.recv())))
    except EOFError:
        return
    except (StreamerError, errors.IndexProblem) as error:
        log.error("answering process ends", error=type(error).__name__, reason=str(error))
        raise SystemExit(exit_code_of(error)) from None
