"""Waiting for a job says how long it lasts, and with an address how the job is. A job that failed ends it."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from streamer.errors import JobFailed
from streamer.flink import taking_in
from streamer.flink.taking_in import Written, news, rest_at, wait_until_taken_in
from streamer.settings.settings import Settings, load

NAME = "neardup: seed"
TRACE = """java.lang.RuntimeException: the task failed
\tat org.apache.flink.Task.run(Task.java:7)
Caused by: ValueError: Partition 3 of documents gets entries of an index twice
\tat pemja.core.PythonInterpreter.invoke(Native Method)
\t... 8 more
"""


def cluster(state: str, end_ms: int = -1, *, trace: str = "", name: str = NAME) -> Callable[[str], Any]:
    """Answers of Flink about an ended job, and one that began later."""
    jobs = [
        {"jid": "old", "name": name, "state": "FAILED", "start-time": 100, "end-time": 200},
        {"jid": "new", "name": name, "state": state, "start-time": 300, "end-time": end_ms},
        {"jid": "other", "name": "neardup: decide", "state": "RUNNING", "start-time": 400, "end-time": -1},
    ]
    entries = [{"stacktrace": trace}] if trace else []
    return {
        "/jobs/overview": {"jobs": jobs},
        "/jobs/new/exceptions": {"exceptionHistory": {"entries": entries}},
    }.__getitem__


def test_a_job_at_work_is_told_of_with_the_cause_of_its_last_failure() -> None:
    assert news(cluster("RUNNING"), NAME, 1.0) == "The job 'neardup: seed' is RUNNING"
    assert news(cluster("RESTARTING", trace=TRACE), NAME, 1.0) == (
        "The job 'neardup: seed' is RESTARTING: Caused by: ValueError: Partition 3 of documents gets entries of an index twice"
    )


def test_a_job_that_ends_during_the_wait_ends_it_and_an_earlier_one_does_not() -> None:
    ended = cluster("FAILED", 1_500, trace=TRACE)
    with pytest.raises(
        JobFailed, match=r"is FAILED: Caused by: ValueError: Partition 3 .* twice\. Put that right, submit"
    ):
        news(ended, NAME, 1.0)
    assert "is FAILED" in news(ended, NAME, 2.0)


def test_without_such_a_job_or_an_answer_that_is_told() -> None:
    assert news(cluster("RUNNING", name="another"), NAME, 1.0) == "Flink has no job 'neardup: seed': submit it"
    assert "Flink's REST API gives no answer ('/jobs/overview')" in news({}.__getitem__, NAME, 1.0)


class _Answering(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/jobs/overview" else 404)
        self.end_headers()
        self.wfile.write(json.dumps({"jobs": []}).encode())

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def answering() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Answering) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_an_address_is_asked_and_one_without_a_cluster_says_so() -> None:
    with answering() as address:
        assert rest_at(address)("/jobs/overview") == {"jobs": []}
        assert "no job" in news(rest_at(address), NAME, 1.0)
    assert "Flink's REST API gives no answer (" in news(rest_at(address), NAME, 1.0)


def waited(monkeypatch: pytest.MonkeyPatch, get: Callable[[str], Any] | None, seconds: int) -> list[str]:
    """What a wait of so many seconds says."""
    clock, lines = [0.0], list[str]()

    class Clock:
        time = staticmethod(lambda: clock[0])

        @staticmethod
        def sleep(passing: float) -> None:
            clock[0] += passing

    def is_taken_in(_settings: Settings, _written: Written) -> bool:
        return clock[0] >= seconds

    monkeypatch.setattr(taking_in, "time", Clock)
    monkeypatch.setattr(taking_in, "taken_in", is_taken_in)
    written = Written("fingerprints-seeds", 3, {0: 3})
    wait_until_taken_in(load(None, [], {}), written, seeding=True, get=get, say=lines.append)
    return lines


def test_a_wait_without_an_address_says_every_half_minute_how_long_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = waited(monkeypatch, None, 70)
    assert [line.split(",")[0] for line in lines] == ["30 s", "60 s"]
    assert (
        "no checkpoint has all of the topic fingerprints-seeds. Look whether the job 'neardup: seed' runs" in lines[0]
    )
    assert waited(monkeypatch, None, 29) == []


def test_a_wait_with_an_address_says_at_once_what_is_wrong_and_ends_with_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert waited(monkeypatch, cluster("RUNNING"), 4) == []
    (line,) = waited(monkeypatch, cluster("RESTARTING", trace=TRACE), 20)
    assert line.startswith("5 s, and no checkpoint")
    with pytest.raises(JobFailed):
        waited(monkeypatch, cluster("FAILED", 10_000), 20)
