"""Giving back and replaying over a real broker, beside a running service: once, also where the command is killed."""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from deploy.kafka_run import Run, stop
from tests.support.command_line import run as run_here
from tests.support.memory_service import SENTENCES
from tests.support.services import Started, make_run, wait_until

pytestmark = pytest.mark.kafka

SITE = "site.example"
TEMPLATE = "".join(SENTENCES)
PAGES = 26
BROKEN = 3
START_MS = 1_700_000_000_000
KILLED = -9


def page(number: int, version: str = "") -> bytes:
    name = f"page number {number:04}"
    text = f"{TEMPLATE} {name} {name[::-1]} {version}"
    return orjson.dumps({"id": f"page-{number}", "text": text, "host": SITE})


def sent(run: Run, values: list[bytes], first: int = 0) -> None:
    producer = KafkaProducer(bootstrap_servers=run.bootstrap_servers, acks="all")
    for number, value in enumerate(values, first):
        headers = [("trace", b"%d" % number), ("neardup.verdict", b"somebody else's")]
        key = f"key {number}".encode()
        producer.send(run.input_topic, value, key, headers, timestamp_ms=START_MS + number).get(timeout=30)
    producer.close()


def held(run: Run, topic: str) -> list[Any]:
    """All committed records of a topic."""
    consumer = KafkaConsumer(
        bootstrap_servers=run.bootstrap_servers,
        isolation_level="read_committed",
        enable_auto_commit=False,
        group_id=None,
    )
    partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    ends = consumer.end_offsets(partitions)
    found: list[Any] = []
    while any(consumer.position(at) < ends[at] for at in partitions):
        found += [record for records in consumer.poll(timeout_ms=200).values() for record in records]
    consumer.close()
    return found


def killed(run: Run, moment: str, commit: int, *command: str) -> int:
    """Exit code of a command that kills itself."""
    arguments = run.arguments(*command)[3:]
    doomed = [sys.executable, "-m", "tests.support.doomed_command", moment, str(commit), *arguments]
    return subprocess.run(doomed, capture_output=True, check=False, timeout=120).returncode


def told(run: Run, *command: str, code: int = 0) -> Any:
    done = run_here(*run.arguments(*command, "--json")[3:])
    assert done.code == code, done.err
    return orjson.loads(done.out)


def test_a_wiped_site_comes_back_once_though_the_command_is_killed_and_dead_letters_are_replayed_once(
    kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started]
) -> None:
    run = make_run(kafka.bootstrap_servers, tmp_path, "index.templates=false", partitions=2)
    service = start(run)
    sent(run, [page(number) for number in range(PAGES)])
    sent(run, [b"{broken"] * BROKEN, first=PAGES)
    wait_until(lambda: run.delivered() == PAGES + BROKEN)
    lost = {record.key: record for record in held(run, run.topic("duplicate"))}
    assert len(lost) == PAGES - 1

    # Batches have ten records: one has come out, and all of the next has arrived, uncommitted.
    assert killed(run, "sending", 2, "give-back", "--host", SITE) == KILLED
    found = told(run, "give-back", "--host", SITE)
    # What an earlier command finished counts as given back before.
    assert (found["finished"], found["given_back"], found["given_back_before"], found["gone"]) == (
        10,
        PAGES - 21,
        20,
        [],
    )
    (original,) = found["originals"]
    assert told(run, "give-back", "--original", original)["given_back"] == 0
    back = [record for record in held(run, run.topic("unique")) if ("neardup.verdict", b"given-back") in record.headers]
    assert Counter(record.key for record in back) == dict.fromkeys(lost, 1)
    for record in back:
        number = int(record.key.removeprefix(b"key "))
        assert (record.value, record.timestamp) == (page(number), START_MS + number)
        assert record.headers[0] == ("trace", b"%d" % number)
        assert dict(record.headers)["neardup.position"] == dict(lost[record.key].headers)["neardup.position"]

    assert killed(run, "sending", 1, "dead-letters", "replay") == KILLED
    assert told(run, "dead-letters", "list")["reasons"][0]["count"] == BROKEN
    assert told(run, "dead-letters", "replay")["replayed"] == BROKEN
    replays = [record for record in held(run, run.input_topic) if "neardup.replayed" in dict(record.headers)]
    again = Counter(dict(record.headers)["neardup.replayed"] for record in replays)
    assert max(again.values()) == 1

    sent(run, [page(7, "a few words more")], first=7)
    wait_until(lambda: len(held(run, run.topic("duplicate"))) == PAGES)
    [new] = [record for record in held(run, run.topic("duplicate")) if record.value == page(7, "a few words more")]
    assert dict(new.headers)["neardup.original.id"] == b"page-7"
    verified = told(run, "verify", "--all")
    assert verified["sound"], [each for each in verified["checks"] if each["wrong"]]
    assert verified["counts"]["given-back"] == PAGES - 1
    assert stop(service.process) == 0
