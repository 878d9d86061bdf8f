"""The port of a running service answers from the index of its workers, and outlives the process that answers."""

import signal
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import psutil
import pytest

from deploy.kafka_run import Run, fill, stop
from tests.support.services import Started, make_run, wait_until

pytestmark = pytest.mark.kafka

TOKEN = "correct-horse-battery-staple"
TEXT = "In the harbour of the small town the fishermen mended their nets, and spoke of the storm of that night. " * 4
KNOWN = [
    {"id": "first", "text": TEXT, "url": "https://news.example/1"},
    {"id": "second", "text": TEXT + "Nobody was hurt.", "url": "https://news.example/2"},
]


def ask(run: Run, path: str, documents: list[object] | None = None) -> tuple[int, Any]:
    body = None if documents is None else orjson.dumps({"documents": documents})
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{run.port}{path}", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, orjson.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, orjson.loads(error.read())


def answering(service: Started) -> psutil.Process:
    """The process that checks: the supervisor starts the worker, then this one, then the one that reads texts."""
    children = psutil.Process(service.process.pid).children()
    spawned = [child for child in children if "spawn_main" in " ".join(child.cmdline())]
    return sorted(spawned, key=psutil.Process.create_time)[1]


def test_the_service_answers_about_what_it_delivered_and_outlives_the_process_that_answers(
    kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started]
) -> None:
    run = make_run(kafka.bootstrap_servers, tmp_path, "ask.enabled=true", f"ask.token={TOKEN}", "ask.texts=true")
    service = start(run)
    wait_until(run.ready)
    fill(kafka.bootstrap_servers, run.input_topic, map(orjson.dumps, KNOWN))
    wait_until(lambda: run.delivered() == len(KNOWN))
    # 404: it answers, and knows nothing of this id.
    wait_until(lambda: ask(run, "/v1/pairs")[0] == 200 and ask(run, "/v1/documents/none")[0] == 404)

    status, told = ask(run, "/v1/check", [{"text": TEXT}, {"text": "A text of quite other words."}, {"id": "none"}])
    assert status == 200
    first, second, third = told["answers"]
    assert (first["verdict"], first["similarity"], first["original_id"]) == ("duplicate", 1.0, "first")
    assert first["original_position"] == f"{run.input_topic}/0/0"
    assert (second["verdict"], third["reason"]) == ("unique", "no-text")
    (why,) = ask(run, f"/v1/documents/{urllib.parse.quote(f'{run.input_topic}/0/1', safe='')}")[1]["decisions"]
    assert (why["id"], why["verdict"], why["original"]["id"]) == ("second", "duplicate", "first")
    own, other = why["texts"]["own"], why["texts"]["other"]
    assert "Nobody was hurt." in "".join(text for kind, text in own["spans"] if kind == "differing")
    assert (other["id"], other["missing"]) == ("first", "")
    (pair,) = ask(run, "/v1/pairs")[1]["pairs"]
    assert (pair["id"], pair["original_id"]) == ("second", "first")
    assert ask(run, "/v1/status")[1]["documents"] == {
        **dict.fromkeys(ask(run, "/v1/status")[1]["documents"], 0),
        "unique": 1,
        "duplicate": 1,
    }

    answering(service).send_signal(signal.SIGKILL)
    wait_until(lambda: ask(run, "/v1/check", [{"text": TEXT}])[0] == 503)
    assert run.ready()
    wait_until(lambda: ask(run, "/v1/check", [{"text": TEXT}])[0] == 200)
    assert 'neardup_worker_restarts_total{cause="killed"} 0.0' in run.metrics()
    assert stop(service.process) == 0
