"""`streamer why` over a real broker: texts by position, and what is said where they can be read no more."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from kafka import KafkaProducer

from index.entry import Position, Source
from index.index import Index
from streamer.fingerprint.documents import prepare
from streamer.fingerprint.scheme import parameters_for, scheme_for
from streamer.records.decode import Decoder
from streamer.records.record import Record
from streamer.settings.settings import Settings
from streamer.transports.kafka.output_log import KafkaOutputLog
from streamer.transports.kafka.topics import require_topics
from streamer.transports.output_log import Absent
from tests.support.command_line import run
from tests.support.indexes import MAP_BYTES_MAX
from tests.support.transport_worlds import KafkaWorld

BODY = " ".join(f"word{number}" for number in range(80))
VALUES = [
    orjson.dumps({"id": "first", "text": f"{BODY} end"}),
    orjson.dumps({"id": "copy", "text": f"{BODY} finish"}),
    b"broken",
]
SECOND = [orjson.dumps({"id": "later", "text": f"{BODY} finish again"})]
MARK = len(VALUES)
"""Offset of the mark that ends the first transaction."""


@pytest.fixture
def world(kafka: SimpleNamespace) -> KafkaWorld:
    """An input of two transactions."""
    made = KafkaWorld(kafka.bootstrap_servers)
    made.set_up()
    made.write_with_gap(VALUES, SECOND)
    return made


def records(settings: Settings, stream: str) -> Iterator[Record]:
    for offset, value in [*enumerate(VALUES), *enumerate(SECOND, start=MARK + 1)]:
        yield Record(Source(stream, 0), settings.topics.input, offset, None, value, 1_700_000_000_000)


def decided(settings: Settings, directory: Path) -> str:
    """Decide the records of the input into an index, as the service would; returns the input's stream."""
    stream, scheme = require_topics(settings, to_read=True), scheme_for(settings)
    entries = prepare(Decoder(settings.decode), scheme, list(records(settings, stream)))
    parameters = parameters_for(settings, scheme.stamp())
    with Index.open(directory, parameters, map_bytes_max=MAP_BYTES_MAX) as index:
        index.begin(Source(stream, 0), settings.topics.input, 0)
        index.admit(entries, {Source(stream, 0): MARK + 2})
    return stream


def told(settings: Settings, directory: Path, asked: str) -> dict[str, Any]:
    chosen = {
        "kafka.bootstrap_servers": settings.kafka.bootstrap_servers[0],
        "topics.input": settings.topics.input,
        "index.directory": directory,
    }
    done = run("why", asked, "--json", *(part for key, value in chosen.items() for part in ("--set", f"{key}={value}")))
    assert (done.code, done.err) == (0, "")
    answer = orjson.loads(done.out)
    assert answer["no_texts"] == ""
    found: dict[str, Any] = answer["decisions"][0]
    return found


def test_texts_come_by_position_and_what_is_gone_says_why(world: KafkaWorld, tmp_path: Path) -> None:
    settings = world.settings
    stream = decided(settings, tmp_path)
    copy = told(settings, tmp_path, "copy")
    assert (copy["verdict"], copy["original"]["id"], copy["texts"]["changes"]) == ("duplicate", "first", 1)
    assert copy["near"][0]["relation"] == "original"
    assert copy["position"] == f"{settings.topics.input}/0/1"
    dead = told(settings, tmp_path, f"{settings.topics.input}/0/2")
    assert dead["notes"][0].startswith("Decoding it again fails")
    assert told(settings, tmp_path, "later")["texts"]["own"]["characters"] == len(f"{BODY} finish again")

    open_producer = KafkaProducer(bootstrap_servers=settings.kafka.bootstrap_servers, transactional_id=stream)
    open_producer.init_transactions()
    open_producer.begin_transaction()
    open_producer.send(settings.topics.input, value=b"open", partition=0).get(timeout=10)
    asked = [Position(Source(stream, 0), offset) for offset in (MARK, 0, MARK + 3)]
    mark, first, hidden = KafkaOutputLog(settings).records_at(asked, {stream: settings.topics.input}).values()
    assert isinstance(first, Record)
    assert (first.value, first.offset, first.topic) == (VALUES[0], 0, settings.topics.input)
    assert isinstance(mark, Absent)
    assert "mark of a transaction" in mark.why
    assert isinstance(hidden, Absent)
    assert f"no further than {MARK + 3}" in hidden.why
    open_producer.abort_transaction()
    open_producer.close()

    world.delete_before(1)
    copy = told(settings, tmp_path, "copy")
    assert "begins at offset 1 now" in copy["texts"]["other"]["missing"]
    assert copy["texts"]["own"]["spans"]
    world.make_input_anew()
    assert "made again since" in told(settings, tmp_path, "copy")["texts"]["own"]["missing"]
