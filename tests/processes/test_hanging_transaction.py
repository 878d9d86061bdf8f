"""The service before a transaction that only a person can end: its messages, and its outputs after the end."""

import urllib.error
import urllib.request
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from deploy.kafka_run import Outputs, Run, fill, stop
from deploy.local_kafka import LocalKafka
from index.entry import Source
from streamer.demo.demo import documents
from streamer.settings.settings import Settings, load
from streamer.transports.kafka.clients import drop_producer
from streamer.transports.kafka.rights import transactional_id
from streamer.transports.kafka.topics import require_topics
from tests.support.forgotten import Predecessor, abort_what_hangs, initialised
from tests.support.services import Started, make_run, require_every_position_once, wait_until


def settings_of(run: Run) -> Settings:
    arguments = run.arguments()
    overrides = [value for name, value in pairwise(arguments) if name == "--set"]
    return load(None, overrides, {})


def readiness(run: Run) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{run.port}/readyz", timeout=1) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return error.read().decode()
    except OSError:
        return ""


def test_the_service_says_what_hangs_and_goes_on_by_itself_once_it_was_ended(
    forgetful_kafka: LocalKafka, tmp_path: Path, start: Callable[[Run], Started]
) -> None:
    broker = forgetful_kafka
    run = make_run(broker.bootstrap_servers, tmp_path)
    settings = settings_of(run)
    values = list(documents(100))
    service = start(run)
    wait_until(run.ready)
    fill(broker.bootstrap_servers, run.input_topic, values[:20])
    wait_until(lambda: run.delivered() == 20)
    assert stop(service.process) == 0

    # Its next batch was delivered, but nobody learnt so. The next request for a producer id took the last trace of it.
    source = Source(require_topics(settings), 0)
    forgotten = Predecessor(settings, source, instance="0-0")
    forgotten.write(values[20:30], first=20, marked=False)
    forgotten.send_offsets(30, marked=False)
    forgotten.end("commit")
    drop_producer(initialised(settings, "0-0"))
    fill(broker.bootstrap_servers, run.input_topic, values[20:])

    service = start(run)
    wait_until(lambda: "stands still" in readiness(run))
    assert repr(run.name) in readiness(run)
    assert "docs/runbook.md" in readiness(run)
    assert not run.ready()
    log = service.log.read_text()
    assert f"transactional id '{transactional_id(settings.kafka, '0-0')}'" in log
    assert f"abort --topic {settings.topics.unique} --partition 0 --start-offset" in log
    assert 'neardup_worker_restarts_total{cause="hanging-transaction"}' in run.metrics()
    assert 'neardup_worker_restarts_total{cause="hanging-transaction"} 0.0' not in run.metrics()

    abort_what_hangs(settings)
    wait_until(run.ready)
    require_every_position_once(Outputs(run), len(values))
    assert stop(service.process) == 0
