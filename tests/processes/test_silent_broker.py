"""A broker that is suspended or dead makes an idle service not ready, with words that say so; nothing is lost."""

import time
from collections.abc import Callable
from pathlib import Path

from deploy.kafka_run import Outputs, Run, fill, stop
from deploy.local_kafka import LocalKafka
from streamer.demo.demo import documents
from streamer.settings.settings import load
from streamer.transports.kafka.silence import silence_ms_max
from tests.support.services import SHORT_TIMEOUTS, Started, ask, make_run, require_every_position_once, wait_until


def test_an_idle_service_whose_broker_is_silent_says_so_until_it_answers_again(
    fragile_kafka: LocalKafka, tmp_path: Path, start: Callable[[Run], Started]
) -> None:
    broker = fragile_kafka
    run = make_run(broker.bootstrap_servers, tmp_path)
    values = list(documents(100))
    service = start(run)
    wait_until(run.ready)
    fill(broker.bootstrap_servers, run.input_topic, values[:50])
    wait_until(lambda: run.delivered() == 50 and "neardup_lag_records{" in run.metrics())
    silence_seconds = silence_ms_max(load(None, SHORT_TIMEOUTS, {})) / 1000
    for go_away, come_back in ((broker.suspend, broker.resume), (broker.kill, broker.start)):
        go_away()
        gone_seconds = time.monotonic()
        wait_until(lambda: not run.ready())
        assert time.monotonic() - gone_seconds < silence_seconds + 1
        wait_until(
            lambda: (
                "worker 0" in (told := ask(run, "/readyz")[1])
                and f"kafka.bootstrap_servers: {broker.bootstrap_servers})" in told
            )
        )
        wait_until(lambda: "neardup_lag_records{" not in run.metrics())
        assert ask(run, "/healthz") == (200, "ok\n")
        come_back()
        wait_until(run.ready)
    fill(broker.bootstrap_servers, run.input_topic, values[50:])
    require_every_position_once(Outputs(run), len(values))
    assert stop(service.process) == 0
