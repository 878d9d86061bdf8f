"""Topics by hand: made once, and filled in order."""

import uuid
from types import SimpleNamespace

import pytest

from streamer.errors import BrokerUnavailable, SettingsError
from streamer.settings.settings import Settings
from streamer.transports.kafka.topics import Note, create_topics, parse_note, produce, require_topics
from tests.support.transport_worlds import committed_records, make_settings

pytestmark = pytest.mark.kafka


@pytest.fixture
def fresh(kafka: SimpleNamespace) -> Settings:
    return make_settings(kafka.bootstrap_servers)


def test_topics_are_made_once_and_left_alone_afterwards(fresh: Settings) -> None:
    names = [fresh.topics.input, fresh.topics.unique, fresh.topics.duplicate, fresh.topics.dead_letter]
    assert create_topics(fresh, 2, 1) == dict.fromkeys(names, "created")
    stream = require_topics(fresh)
    assert create_topics(fresh, 3, 1) == dict.fromkeys(names, "exists")
    assert require_topics(fresh) == stream
    assert uuid.UUID(stream).int != 0


def test_more_replicas_than_brokers_are_refused_in_plain_words(fresh: Settings) -> None:
    with pytest.raises(SettingsError, match=r"refuses to create topic 'documents-.*[Rr]eplication"):
        create_topics(fresh, 1, 3)


def test_the_loader_writes_every_value_in_order(fresh: Settings) -> None:
    create_topics(fresh, 1, 1)
    values = [f"document {number}".encode() for number in range(6_000)]
    assert produce(fresh, fresh.topics.input, iter(values)) == 6_000
    found = committed_records(fresh.kafka.bootstrap_servers[0], fresh.topics.input)
    assert [each.value for each in found] == values


def test_the_loader_makes_no_topic(fresh: Settings) -> None:
    with pytest.raises(SettingsError, match=r"no topic 'documents-.*streamer topics create"):
        produce(fresh, fresh.topics.input, [b"document"])
    with pytest.raises(SettingsError, match="no topic"):
        require_topics(fresh)


def test_the_loader_tells_how_many_were_written_before_one_was_refused(fresh: Settings) -> None:
    create_topics(fresh, 1, 1)
    with pytest.raises(BrokerUnavailable, match="0 records were written"):
        produce(fresh, fresh.topics.input, [b"x" * (fresh.kafka.request_bytes_max + 1)])


@pytest.mark.parametrize(
    ("note", "text"),
    [
        (Note("stream"), "stream"),
        (Note("stream", "index"), "stream index"),
        (Note("stream", "index", in_use=False), "stream index restoring"),
        (Note(""), ""),
    ],
)
def test_a_note_is_read_as_it_was_written(note: Note, text: str) -> None:
    assert note.text() == text
    assert parse_note(text) == note


def test_an_offset_without_a_note_says_nothing() -> None:
    assert parse_note(None) == Note("")
