"""The supervisor's handle on the answering process: starts, watches and ends it.

A document may crash or block its reader, so the process is separate, and answers one question at a time.
"""

import multiprocessing
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import NamedTuple

import structlog

from streamer.ask.reply import READY, AskReply, error_reply
from streamer.errors import ProcessRefused
from streamer.observe.logs import configure_logging
from streamer.observe.process_start import ended_by_imports, naming_limits
from streamer.settings.settings import Settings

log = structlog.get_logger(__name__)

START_SECONDS = 300.0
"""Maximum time for imports, opening the index and reading its newest entries."""


class _Running(NamedTuple):
    process: SpawnProcess
    connection: Connection
    started_seconds: float


class Answerer:
    """The supervisor's handle on the answering process. One thread calls `attend` and `end`, another `ask`.

    >>> answerer = Answerer(Settings())
    >>> answerer.ask("check", b"{}").status.phrase, answerer.is_started
    ('Service Unavailable', False)
    """

    def __init__(self, settings: Settings, body: Callable[..., None] | None = None) -> None:
        """`body` replaces the process's function in tests."""
        self._settings = settings
        self._body = body or answer_questions
        self._running: _Running | None = None
        self._is_ready = False
        self._due_seconds = 0.0
        self._backoff_ms = 0
        # Start of the current question; None between questions.
        self._asked_seconds: float | None = None
        self._asking = threading.Lock()

    @property
    def is_started(self) -> bool:
        """Whether a process runs, ready or not."""
        return self._running is not None

    def attend(self) -> None:
        """Start a missing process, and kill an overdue one; never waits."""
        now_seconds, running = time.monotonic(), self._running
        if running is None:
            if now_seconds >= self._due_seconds:
                self._start()
        elif not running.process.is_alive():
            self._remove(running)
        elif not self._is_ready:
            if running.connection.poll():
                self._receive_ready(running)
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
                near_end, far_end = context.Pipe()
                # After a failed start, both ends close with their last reference.
                process = context.Process(
                    target=self._body, args=(self._settings, far_end), name="answers", daemon=True
                )
                process.start()
        except ProcessRefused as refusal:
            self._postpone_start()
            log.error("answering process not started", reason=str(refusal), start_in_ms=self._backoff_ms)
            return
        far_end.close()
        self._running = _Running(process, near_end, time.monotonic())

    def _postpone_start(self) -> None:
        workers = self._settings.workers
        self._backoff_ms = min(max(workers.restart_backoff_ms, 2 * self._backoff_ms), workers.restart_backoff_max_ms)
        self._due_seconds = time.monotonic() + self._backoff_ms / 1000

    def _receive_ready(self, running: _Running) -> None:
        try:
            self._is_ready = running.connection.recv_bytes() == READY
            self._backoff_ms = 0
        except EOFError:
            # The process ended early; the next `attend` removes it.
            return

    def _remove(self, running: _Running) -> None:
        self._is_ready, self._running = False, None
        running.connection.close()
        self._postpone_start()
        log.warning("answering process ended", exit_code=running.process.exitcode, restart_in_ms=self._backoff_ms)

    def ask(self, question: str, payload: bytes) -> AskReply:
        """The process's reply (see `Answers.answer`), or 503."""
        with self._asking:
            running = self._running
            if running is None or not self._is_ready:
                return _unanswered("the answering process is starting: try again in a few seconds")
            self._asked_seconds = time.monotonic()
            try:
                running.connection.send((question, payload))
                status, body = running.connection.recv()
            except (OSError, EOFError):
                return _unanswered("the answering process crashed on this question, or exceeded ask.timeout_ms")
            finally:
                self._asked_seconds = None
        return AskReply(HTTPStatus(status), body)

    def end(self) -> None:
        """Kill the process; it has no work to finish."""
        if self._running is not None:
            self._running.process.kill()
            self._running.process.join()
            self._running.connection.close()
            self._running, self._is_ready = None, False


def _unanswered(message: str) -> AskReply:
    return error_reply(HTTPStatus.SERVICE_UNAVAILABLE, "", message)


def answer_questions(settings: Settings, connection: Connection) -> None:
    """See `streamer.ask.answering`: only the process loads what it answers with."""
    configure_logging(settings.observe.log_level, settings.observe.log_format)
    with ended_by_imports("answering process ends"):
        from streamer.ask import answering

        answering.answer_questions(settings, connection)
