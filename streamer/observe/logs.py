"""Logging to standard error through structlog, for the service and the Kafka client."""

import logging
import sys
import time
from collections.abc import Callable
from typing import Literal, TextIO

import orjson
import structlog

CHATTER_PERIOD_SECONDS = 30.0
"""A repeated Kafka client line appears once a period."""


class ChatterFilter(logging.Filter):
    """Passes a Kafka client line once a period, with its repetitions.

    Lines count by their place in the client's source, so memory is bounded.

    >>> line = logging.LogRecord("kafka.conn", logging.WARNING, "conn.py", 7, "disconnected", (), None)
    >>> chatter = ChatterFilter(period_seconds=30)
    >>> chatter.filter(line), chatter.filter(line)
    (True, False)
    """

    def __init__(self, period_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._period_seconds, self._clock = period_seconds, clock
        self._shown_at: dict[tuple[str, int], float] = {}
        self._held_back: dict[tuple[str, int], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log the line; other loggers' always pass."""
        if not _is_client(record.name):
            return True
        place, now = (record.pathname, record.lineno), self._clock()
        shown_at = self._shown_at.get(place)
        if shown_at is not None and now - shown_at < self._period_seconds:
            self._held_back[place] = self._held_back.get(place, 0) + 1
            return False
        self._shown_at[place] = now
        held_back = self._held_back.pop(place, 0)
        if held_back:
            record.msg, record.args = f"{record.getMessage()} (repeated {held_back} times before)", ()
        return True


def configure_logging(
    level: Literal["debug", "info", "warning", "error"],
    form: Literal["console", "json"],
    worker: int | None = None,
    stream: TextIO | None = None,
    part: str | None = None,
) -> None:
    """Log from `level` on to `stream` (default: standard error). A second call replaces the first.

    The Kafka client logs warnings and errors, each once a period. At debug level, tracebacks show local variables. Else
    the client's exceptions are one line, `error`, with all causes.
    """
    out = sys.stderr if stream is None else stream
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _add_worker(worker, part),
    ]
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    debug = level == "debug"
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared if debug else [*shared, _shorten_client_error],
            processors=_last(form, out, debug=debug),
        )
    )
    handler.addFilter(ChatterFilter(CHATTER_PERIOD_SECONDS))
    handler.addFilter(lambda line: debug or not _is_about_the_client_itself(line))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    logging.getLogger("kafka").setLevel(max(logging.WARNING, root.level))


def _is_about_the_client_itself(line: logging.LogRecord) -> bool:
    """Whether a line is about the Kafka client's own doings, on which no operator can act.

    Its loop warns of a task that ran for 0.1 s, and its end cancels a request for metadata, which it logs as an error.
    """
    if line.name == "kafka.net.selector":
        return line.levelno <= logging.WARNING
    arguments = line.args if isinstance(line.args, tuple) else ()
    return line.name == "kafka.cluster" and any(type(each).__name__ == "Cancelled" for each in arguments)


def _add_worker(worker: int | None, part: str | None) -> structlog.typing.Processor:
    """Name worker and part on every line. Context variables would be missing on lines from the client's threads."""
    names = {key: name for key, name in (("worker", worker), ("part", part)) if name is not None}
    return lambda _logger, _method, event: {**event, **names}


def _shorten_client_error(
    _logger: object, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Replace the Kafka client's traceback by `error`: users cannot act on its frames."""
    if _is_client(event["logger"]) and (raised := event.pop("exc_info", None)):
        event["error"] = _in_one_line(raised[1])
    return event


def _in_one_line(error: BaseException | None) -> str:
    causes: list[str] = []
    while error is not None:
        causes.append(" ".join(f"{type(error).__name__}: {error}".split()))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return ", caused by ".join(causes)


def _is_client(name: str) -> bool:
    return name == "kafka" or name.startswith("kafka.")


def _last(form: str, out: TextIO, *, debug: bool) -> list[structlog.typing.Processor]:
    strip = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    if form == "json":
        return [
            strip,
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(
                serializer=lambda event, **_: orjson.dumps(event, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
            ),
        ]
    formatter = structlog.dev.default_exception_formatter if debug else structlog.dev.plain_traceback
    return [strip, structlog.dev.ConsoleRenderer(colors=out.isatty(), exception_formatter=formatter)]
