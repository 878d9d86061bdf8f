"""What the jobs of a Flink cluster do: state, lag, watermark, checkpoint, and how busy each operator is.

    python -m deploy.flink_status [--address URL] [--json]

Reads Flink's REST API alone. Without an address it asks the cluster of `make flink`, or Flink's default port.
"""

import argparse
import json
import math
import re
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

CONFIGURATION = Path(".flink") / "flink" / "conf" / "config.yaml"
"""Configuration of the cluster that `make flink` starts."""

DEFAULT_ADDRESS = "http://127.0.0.1:8081"
TIMEOUT_SECONDS = 10
ENDED = ("FAILED", "FINISHED", "CANCELED")

BUSY, BACKPRESSURED, RECORDS_IN = "busyTimeMsPerSecond", "backPressuredTimeMsPerSecond", "numRecordsInPerSecond"
BEHIND = ".pendingRecords"
BETWEEN = ("Map", "_stream_key_by_map_operator")
"""Vertices that PyFlink puts between operators; they only cut tuples."""

NO_WATERMARK = -(2**63)

COLUMNS = ("operator", "tasks", "busy %", "busiest task %", "backpressured %", "records in/s")

Get = Callable[[str], Any]
"""JSON answer to a path of the REST API."""


class NoStatus(Exception):
    """There is no answer, or no job; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator of the job. None: Flink has no value, or none yet.

    busy_percent           time at work, average of its tasks
    busiest_percent        the same of its busiest task
    backpressured_percent  time in which its most hindered task waits for the next operator
    """

    name: str
    tasks: int
    busy_percent: float | None
    busiest_percent: float | None
    backpressured_percent: float | None
    records_in_per_second: float | None


@dataclass(frozen=True, slots=True)
class Job:
    """A job's status. None: there is no value yet.

    records_behind          records of the input topic that its source has not read
    watermark_age_seconds   age of the least watermark of JOIN: so late are verdicts
    checkpoint_age_seconds  time since the last complete checkpoint
    checkpoint_bytes        size of its state
    """

    id: str
    name: str
    state: str
    records_behind: int | None
    watermark_age_seconds: float | None
    checkpoint_age_seconds: float | None
    checkpoint_bytes: int | None
    operators: tuple[Operator, ...]


def status(get: Get, now_seconds: float) -> list[Job]:
    """Status of each job that has not ended, the oldest first. Raises NoStatus if there is none, and OSError."""
    jobs = get("/jobs/overview")["jobs"]
    at_work = sorted((each for each in jobs if each["state"] not in ENDED), key=lambda each: each["start-time"])
    if not at_work:
        ended = ", ".join(f"{each['name']} is {each['state']}" for each in jobs) or "it never had one"
        raise NoStatus(f"The cluster runs no job ({ended}). Submit one: docs/flink.md, Start")
    return [_job(get, each["jid"], now_seconds) for each in at_work]


def _job(get: Get, job: str, now_seconds: float) -> Job:
    graph, checkpoints = get(f"/jobs/{job}"), get(f"/jobs/{job}/checkpoints")
    vertices = graph["vertices"]
    latest = (checkpoints["latest"] or {}).get("completed")
    watermarks = [
        int(float(each["value"]))
        for vertex in vertices
        if _name(vertex["name"]) == "join"
        for each in get(f"/jobs/{job}/vertices/{vertex['id']}/watermarks")
    ]
    least = min(watermarks, default=NO_WATERMARK)
    # Flink says 0 until the source has read something.
    has_read = least > NO_WATERMARK
    behind = [number for vertex in vertices if has_read and (number := _behind(get, job, vertex)) is not None]
    return Job(
        job,
        graph["name"],
        graph["state"],
        sum(behind) if behind else None,
        now_seconds - least / 1000 if has_read else None,
        now_seconds - latest["latest_ack_timestamp"] / 1000 if latest else None,
        latest["state_size"] if latest else None,
        tuple(_operator(get, job, vertex) for vertex in vertices if _name(vertex["name"]) not in BETWEEN),
    )


def _operator(get: Get, job: str, vertex: dict[str, Any]) -> Operator:
    found = _metrics(get, job, vertex, (BUSY, BACKPRESSURED, RECORDS_IN))
    return Operator(
        _name(vertex["name"]),
        vertex["parallelism"],
        _value(found, BUSY, "avg", 0.1),
        _value(found, BUSY, "max", 0.1),
        _value(found, BACKPRESSURED, "max", 0.1),
        _value(found, RECORDS_IN, "sum"),
    )


def _behind(get: Get, job: str, vertex: dict[str, Any]) -> int | None:
    if not vertex["name"].startswith("Source: "):
        return None
    path = f"/jobs/{job}/vertices/{vertex['id']}/subtasks/metrics"
    names = [each["id"] for each in get(path) if each["id"].endswith(BEHIND)]
    if not names:
        return None
    behind = _value(_metrics(get, job, vertex, names), names[0], "sum")
    return None if behind is None else int(behind)


def _metrics(get: Get, job: str, vertex: dict[str, Any], names: Sequence[str]) -> dict[str, dict[str, Any]]:
    path = f"/jobs/{job}/vertices/{vertex['id']}/subtasks/metrics?get={','.join(names)}&agg=max,avg,sum"
    return {each["id"]: each for each in get(path)}


def _value(found: dict[str, dict[str, Any]], name: str, aggregate: str, scale: float = 1.0) -> float | None:
    value = float(found.get(name, {}).get(aggregate, math.nan))
    return None if math.isnan(value) else value * scale


def _name(vertex: str) -> str:
    """Name of a chain's first operator, without Flink's numbers."""
    return re.split(r" -> |: |\[", vertex.removeprefix("Source: "), maxsplit=1)[0]


def lines(jobs: Iterable[Job]) -> list[str]:
    """The status as text: for each job a line, and a table of its operators."""
    text = []
    for job in jobs:
        if text:
            text.append("")
        text.append(f"{job.name}: {job.state.lower()} ({job.id})")
        text.append(", ".join(_progress(job)))
        text += _table([COLUMNS, *(_row(each) for each in job.operators)])
    return text


def _progress(job: Job) -> tuple[str, str, str]:
    lag, watermark, checkpoint = "lag unknown", "no watermark yet", "no checkpoint yet"
    if job.records_behind is not None:
        lag = f"{job.records_behind:,} records behind"
    if job.watermark_age_seconds is not None:
        watermark = f"watermark {job.watermark_age_seconds:,.1f} s old"
    if job.checkpoint_age_seconds is not None and job.checkpoint_bytes is not None:
        checkpoint = f"checkpoint {job.checkpoint_age_seconds:,.1f} s old with {job.checkpoint_bytes / 1e6:,.1f} MB"
    return lag, watermark, checkpoint


def _row(operator: Operator) -> tuple[str, ...]:
    numbers = (
        operator.tasks,
        operator.busy_percent,
        operator.busiest_percent,
        operator.backpressured_percent,
        operator.records_in_per_second,
    )
    return operator.name, *(_shown(each) for each in numbers)


def _shown(value: float | None) -> str:
    if value is None:
        return "unknown"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines: names to the left, numbers to the right."""
    name_width, *widths = (max(map(len, column)) for column in zip(*rows, strict=True))
    return [
        name.ljust(name_width) + "".join(f"  {cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        for name, *cells in rows
    ]


def asking(address: str) -> Get:
    """Questions to a REST API, whose answers raise NoStatus if it cannot be reached."""

    def get(path: str) -> Any:
        try:
            with urllib.request.urlopen(f"{address.rstrip('/')}{path}", timeout=TIMEOUT_SECONDS) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise NoStatus(
                f"{address}{path} answers {error.code}: is it Flink's REST API? The job may just have ended."
            ) from error
        except (OSError, ValueError) as error:
            raise NoStatus(
                f"No Flink cluster answers at {address} ({error}). Name its page with --address, or start one with `make flink`."
            ) from error

    return get


def default_address(configuration: Path = CONFIGURATION) -> str:
    """Address of the cluster of `make flink` if there is one, else Flink's default."""
    if not configuration.exists():
        return DEFAULT_ADDRESS
    settings = yaml.safe_load(configuration.read_text(encoding="utf-8"))
    return f"http://{settings['rest.address']}:{settings['rest.port']}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what the jobs of a cluster do; exit code 1 without a job or an answer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", help="address of Flink's page and REST API, such as http://host:8081")
    parser.add_argument("--json", action="store_true", help="write JSON")
    options = parser.parse_args(arguments)
    try:
        jobs = status(asking(options.address or default_address()), time.time())
    except NoStatus as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps({"jobs": [asdict(job) for job in jobs]}, indent=2) if options.json else "\n".join(lines(jobs)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
