"""Records of Avro with the schemas of a registry, in the service as its users run it."""

import datetime
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer

from deploy.kafka_run import Outputs, Run, stop
from tests.support.memory_service import SENTENCES
from tests.support.schema_registry import PAGE, Registry, avro, framed, serving
from tests.support.services import Started, free_port, make_run, require_every_position_once, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

PASSED_THROUGH = [
    ("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    ("ce_specversion", b"1.0"),
    ("ce_id", b"\xff\x00"),
]


def page(number: int, text: str) -> bytes:
    moment = datetime.datetime(2026, 11, 22, 10, number, tzinfo=datetime.UTC)
    return avro(7, PAGE, {"id": f"page-{number}", "url": "https://a.example/1", "crawled": moment, "text": text})


NINE = {"id": "page-9", "url": None, "crawled": datetime.datetime(2026, 11, 22, 11, tzinfo=datetime.UTC)}


def test_a_registry_that_is_down_or_fails_delays_records_and_loses_none_and_outputs_keep_every_byte(
    kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started]
) -> None:
    story, other = " ".join(SENTENCES[:3]), " ".join(SENTENCES[3:])
    values = {
        "unique": [page(0, story), page(1, other)],
        "duplicate": [page(2, f"{story} So it goes."), page(3, story)],
        "dead-letter": [framed(7, b"\x02"), framed(8, b"anything"), b"\0\0"],
    }
    registry = Registry(port=free_port())
    registry.add(7, PAGE)
    run = make_run(
        kafka.bootstrap_servers,
        tmp_path,
        "decode.format=avro",
        f"decode.registry_url={registry.url}",
        "decode.time=/crawled",
        "workers.deaths_max=1",
    )

    def send(given: list[bytes]) -> None:
        producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
        for value in given:
            producer.send(run.input_topic, value=value, headers=PASSED_THROUGH)
        producer.close()

    send([value for each in values.values() for value in each])
    service = start(run)
    down = f"decode.registry_url: {registry.url}/schemas/ids/7 cannot be asked"
    wait_until(lambda: service.log.read_text().count(down) >= 1)
    outputs = Outputs(run)
    with serving(registry):
        wait_until(lambda: outputs.poll(20) >= 7)
        assert registry.asked == ["/schemas/ids/7", "/schemas/ids/8"]
        # It fails while the service runs: at first by an error, then by an answer that never ends.
        registry.add(9, PAGE)
        registry.instead = (500, b"{}")
        send([avro(9, PAGE, {**NINE, "text": other})])
        wait_until(lambda: "/schemas/ids/9 cannot be asked (500" in service.log.read_text())
        registry.instead, registry.byte_seconds = None, 0.1
        wait_until(lambda: "cannot be asked (timed out)" in service.log.read_text())
        registry.byte_seconds = 0.0
        wait_until(lambda: outputs.poll(20) >= 8)
        require_every_position_once(outputs, 8)
        assert stop(service.process) == 0
    assert "trying the records" not in service.log.read_text()
    found = read(kafka.bootstrap_servers, [run.topic(destination) for destination in values], 8)
    assert all(record.headers[: len(PASSED_THROUGH)] == PASSED_THROUGH for record in found)
    for destination, wanted in values.items():
        assert [record.value for record in found if record.topic == run.topic(destination)][: len(wanted)] == wanted
    reasons = {dict(headers)["neardup.reason"] for ((_, _, headers),) in outputs.by_position.values()}
    assert {b"not-avro", b"schema-unknown", b"not-of-registry"} <= reasons


def read(bootstrap_servers: str, topics: list[str], count: int) -> list[Any]:
    """The first records of some topics, each in its order."""
    found: list[Any] = []

    def has_come() -> bool:
        for records in consumer.poll(100).values():
            found.extend(records)
        return len(found) >= count

    consumer = KafkaConsumer(
        *topics, bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    try:
        wait_until(has_come)
    finally:
        consumer.close()
    return found
