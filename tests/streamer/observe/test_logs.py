"""One line an event, from the service's loggers and the Kafka client's alike; no flood while a broker is away."""

import io
import logging
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Literal

import kafka.errors
import orjson
import pytest
import structlog

from streamer.observe.logs import ChatterFilter, configure_logging


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    root, kafka = logging.getLogger(), logging.getLogger("kafka")
    handlers, level, kafka_level = root.handlers, root.level, kafka.level
    yield
    root.handlers = handlers
    root.setLevel(level)
    kafka.setLevel(kafka_level)
    structlog.reset_defaults()


def test_console_lines_hold_level_event_and_values_without_colour() -> None:
    out = io.StringIO()
    configure_logging("info", "console", stream=out)
    structlog.get_logger("streamer.service.loop").info("reading", input="文档", partition=3)
    line = out.getvalue()
    assert "[info     ] reading" in line
    assert "input=文档" in line
    assert "partition=3" in line
    assert "\x1b" not in line
    assert line.count("\n") == 1


def test_json_lines_are_json_and_carry_the_worker() -> None:
    out = io.StringIO()
    configure_logging("info", "json", worker=2, stream=out)
    structlog.get_logger("streamer.service.loop").warning(
        "offsets skipped", count=5, input="文档", by_partition={0: "a"}
    )
    logging.getLogger("kafka.net").error("Connection failed: %s", "refused")
    own, client = (orjson.loads(line) for line in out.getvalue().splitlines())
    timestamp = own.pop("timestamp")
    assert timestamp.endswith("Z")
    assert own == {
        "event": "offsets skipped",
        "count": 5,
        "input": "文档",
        "by_partition": {"0": "a"},
        "level": "warning",
        "logger": "streamer.service.loop",
        "worker": 2,
    }
    assert (client["event"], client["level"], client["logger"], client["worker"]) == (
        "Connection failed: refused",
        "error",
        "kafka.net",
        2,
    )


@pytest.mark.parametrize("form", ["console", "json"])
def test_an_exception_is_logged_with_its_traceback(form: str) -> None:
    out = io.StringIO()
    configure_logging("info", "json" if form == "json" else "console", stream=out)
    try:
        raise ValueError("no such thing")
    except ValueError:
        structlog.get_logger("streamer.workers.worker").exception("worker ends")
    assert "ValueError: no such thing" in out.getvalue()


def raise_unreachable() -> None:
    secret = "a local variable"
    try:
        raise ConnectionRefusedError(111, "Connection refused")
    except OSError as error:
        raise ValueError(f"no broker\nof {len(secret) - 15}") from error


@pytest.mark.parametrize("form", ["console", "json"])
def test_an_error_of_the_client_is_one_line_with_its_causes(form: Literal["console", "json"]) -> None:
    out = io.StringIO()
    configure_logging("info", form, stream=out)
    try:
        raise_unreachable()
    except ValueError:
        logging.getLogger("kafka.net.selector").exception("Unhandled exception in task %s:", 7)
    assert out.getvalue().count("\n") == 1
    assert "Unhandled exception in task 7:" in out.getvalue()
    assert (
        "ValueError: no broker of 1, caused by ConnectionRefusedError: [Errno 111] Connection refused" in out.getvalue()
    )


@pytest.mark.parametrize(("level", "shown"), [("debug", True), ("info", False)])
@pytest.mark.parametrize("name", ["kafka.net.selector", "uvicorn.error", "streamer.workers.worker"])
def test_local_variables_are_shown_at_level_debug_alone(
    name: str, level: Literal["debug", "info"], shown: bool
) -> None:
    out = io.StringIO()
    configure_logging(level, "console", stream=out)
    try:
        raise_unreachable()
    except ValueError:
        logging.getLogger(name).exception("it failed")
    assert ("'a local variable'" in out.getvalue()) == shown
    assert "Connection refused" in out.getvalue()


def test_the_level_holds_and_the_client_is_heard_from_warnings_on() -> None:
    out = io.StringIO()
    configure_logging("info", "console", stream=out)
    structlog.get_logger("streamer.service.loop").debug("too fine")
    logging.getLogger("kafka.consumer").info("client chatter")
    logging.getLogger("kafka.consumer").warning("client warning")
    configure_logging("error", "console", stream=out)
    logging.getLogger("kafka.consumer").warning("client warning at error")
    assert "too fine" not in out.getvalue()
    assert "chatter" not in out.getvalue()
    assert "client warning" in out.getvalue()
    assert "at error" not in out.getvalue()


@pytest.mark.parametrize(("level", "shown"), [("info", False), ("debug", True)])
def test_a_busy_loop_of_the_client_is_heard_of_at_level_debug_alone(
    level: Literal["info", "debug"], shown: bool
) -> None:
    stream = io.StringIO()
    configure_logging(level, "console", stream=stream)
    logging.getLogger("kafka.net.selector").warning("Task %r ran for %.3fs", 7, 0.116)
    logging.getLogger("kafka.net.selector").error("Unhandled exception in task 7")
    assert ("ran for" in stream.getvalue()) is shown
    assert "Unhandled exception" in stream.getvalue()


def test_configuring_twice_prints_every_line_once() -> None:
    out = io.StringIO()
    configure_logging("info", "console", stream=out)
    configure_logging("info", "console", stream=out)
    structlog.get_logger("streamer.service.loop").info("once")
    assert out.getvalue().count("once") == 1


def test_standard_error_is_where_lines_go(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", "console")
    structlog.get_logger("streamer.service.loop").info("here")
    captured = capsys.readouterr()
    assert (captured.out, "here" in captured.err) == ("", True)
    assert sys.stderr is not sys.stdout


def line_of(
    name: str, line: int, message: str = "Connection failed: %s", argument: object = "refused"
) -> logging.LogRecord:
    return logging.LogRecord(name, logging.ERROR, f"/client/{name}.py", line, message, (argument,), None)


def test_a_complaint_that_repeats_is_shown_once_a_period_with_its_count() -> None:
    clock = SimpleNamespace(now=100.0)
    chatter = ChatterFilter(30.0, lambda: clock.now)
    shown = []
    for clock.now in range(100, 162, 2):
        complaint = line_of("kafka.net.manager", 248, argument=clock.now)
        if chatter.filter(complaint):
            shown.append(complaint.getMessage())
    assert shown == [
        "Connection failed: 100",
        "Connection failed: 130 (repeated 14 times before)",
        "Connection failed: 160 (repeated 14 times before)",
    ]


def test_another_place_in_the_client_is_another_complaint() -> None:
    chatter = ChatterFilter(30.0, lambda: 100.0)
    assert chatter.filter(line_of("kafka.net.manager", 248))
    assert chatter.filter(line_of("kafka.net.manager", 249))
    assert not chatter.filter(line_of("kafka.net.manager", 248, argument="another host"))


@pytest.mark.parametrize("name", ["streamer.service.loop", "kafkaesque", "root"])
def test_lines_of_others_are_never_held_back(name: str) -> None:
    chatter = ChatterFilter(30.0, lambda: 100.0)
    assert all(chatter.filter(line_of(name, 10)) for _ in range(5))


def test_a_percent_sign_in_a_repeated_complaint_stays_one() -> None:
    clock = SimpleNamespace(now=0.0)
    chatter = ChatterFilter(1.0, lambda: clock.now)
    for clock.now in (0.0, 0.5, 2.0):
        complaint = line_of("kafka.cluster", 1, argument="100%s done")
        chatter.filter(complaint)
    assert complaint.getMessage() == "Connection failed: 100%s done (repeated 1 times before)"


def test_a_request_that_the_client_s_end_cancels_is_no_error_and_any_other_failure_is() -> None:
    out = io.StringIO()
    configure_logging("info", "console", stream=out)
    client = logging.getLogger("kafka.cluster")
    client.error("Metadata refresh: failed %s", kafka.errors.Cancelled())
    assert out.getvalue() == ""
    client.error("Metadata refresh: failed %s", kafka.errors.NodeNotReadyError("metadata"))
    assert "Metadata refresh: failed" in out.getvalue()
