"""The status command against answers of a real cluster's REST API, recorded from a job of `make flink-day`."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from deploy.flink_status import NoStatus, lines, main, status
from tests.support.paths import ROOT

RECORDED: dict[str, Any] = json.loads((ROOT / "tests" / "support" / "flink_answers.json").read_text())
"""Answers by path. "now" is the time of the questions, in seconds since 1970."""

STAGES = ["order", "claim", "recall", "verify", "resolve", "name", "join"]
NOW = RECORDED.pop("now")
(OVERVIEW,) = (each for each in RECORDED["/jobs/overview"]["jobs"] if each["state"] == "RUNNING")
JOB = f"/jobs/{OVERVIEW['jid']}"


@contextmanager
def serving(answers: Mapping[str, Any]) -> Iterator[str]:
    """Address of a server with these answers by path, and 404 for others."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = json.dumps(answers.get(self.path, {"errors": ["Not found"]})).encode()
            self.send_response(200 if self.path in answers else 404)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *words: object) -> None:
            """Be quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def vertex(name: str) -> str:
    """Path of an operator's vertex."""
    (found,) = (each["id"] for each in RECORDED[JOB]["vertices"] if each["name"].startswith(name))
    return f"{JOB}/vertices/{found}"


def with_answer(path: str, answer: object) -> dict[str, Any]:
    return {**deepcopy(RECORDED), path: answer}


def test_a_job_is_shown_with_its_lag_its_checkpoint_and_every_operator_from_source_to_join(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with serving(RECORDED) as address:
        assert main(["--address", address, "--json"]) == 0
        (job,) = json.loads(capsys.readouterr().out)["jobs"]
        assert main(["--address", f"{address}/"]) == 0
    assert (job["id"], job["state"]) == (OVERVIEW["jid"], "RUNNING")
    names = [each["name"] for each in job["operators"]]
    assert [name for name in names if name in STAGES] == STAGES
    text = capsys.readouterr().out
    assert f"{job['name']}: running ({job['id']})" in text
    for each in job["operators"]:
        assert f"\n{each['name']} " in text


def test_numbers_are_those_of_flink() -> None:
    (job,) = status(RECORDED.__getitem__, NOW)
    completed = RECORDED[f"{JOB}/checkpoints"]["latest"]["completed"]
    assert job.checkpoint_bytes == completed["state_size"] > 0
    assert job.checkpoint_age_seconds == NOW - completed["latest_ack_timestamp"] / 1000
    watermarks = [int(each["value"]) for each in RECORDED[f"{vertex('join')}/watermarks"]]
    assert job.watermark_age_seconds == NOW - min(watermarks) / 1000
    claim = next(each for each in job.operators if each.name == "claim")
    (path,) = (each for each in RECORDED if each.startswith(vertex("claim")) and "get=" in each)
    told = {each["id"]: each for each in RECORDED[path]}
    assert claim.tasks == 4
    assert claim.busy_percent == pytest.approx(told["busyTimeMsPerSecond"]["avg"] / 10)
    assert claim.busiest_percent == pytest.approx(told["busyTimeMsPerSecond"]["max"] / 10)
    assert claim.backpressured_percent == pytest.approx(told["backPressuredTimeMsPerSecond"]["max"] / 10)
    assert claim.records_in_per_second == told["numRecordsInPerSecond"]["sum"]


def test_columns_line_up_as_the_page_shows_them() -> None:
    shown = lines(status(RECORDED.__getitem__, NOW))
    assert "\n".join(["```", *shown, "```"]) in (ROOT / "docs" / "flink.md").read_text()
    table = shown[2:]
    assert len({len(line) for line in table}) == 1
    ends = [line.index("tasks") + len("tasks") for line in table[:1]]
    assert all(line[end - 1].isdigit() for line in table[1:] for end in ends)


def test_what_flink_does_not_know_yet_is_unknown_and_never_zero() -> None:
    """A job that has just begun: Flink says that it is 0 records behind, which it has not looked at yet."""
    watermark = [{"id": "0.currentInputWatermark", "value": str(-(2**63))}]
    young = {
        path: watermark if path.endswith("/watermarks") else []
        for path in RECORDED
        if path.endswith("/watermarks") or "busyTimeMsPerSecond" in path
    }
    answers = {**RECORDED, **young, f"{JOB}/checkpoints": {"latest": {"completed": None}}}
    (job,) = status(answers.__getitem__, NOW)
    assert (job.records_behind, job.watermark_age_seconds, job.checkpoint_bytes) == (None, None, None)
    assert {each.busy_percent for each in job.operators} == {None}
    assert lines([job])[1] == "lag unknown, no watermark yet, no checkpoint yet"


def test_a_cluster_without_a_job_that_runs_is_an_error_that_names_the_ended_ones() -> None:
    for jobs, said in (([OVERVIEW | {"state": "CANCELED"}], f"{OVERVIEW['name']} is CANCELED"), ([], "never had one")):
        with pytest.raises(NoStatus, match=rf"The cluster runs no job \(.*{said}\)\. Submit one"):
            status(with_answer("/jobs/overview", {"jobs": jobs}).__getitem__, NOW)


def test_a_cluster_that_cannot_be_reached_ends_the_command_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    with serving({}) as address:
        assert main(["--address", address]) == 1
        assert f"{address}/jobs/overview answers 404" in capsys.readouterr().err
    assert main(["--address", address]) == 1
    assert f"No Flink cluster answers at {address}" in capsys.readouterr().err
