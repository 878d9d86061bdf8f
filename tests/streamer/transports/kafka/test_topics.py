"""Topics by hand: made once, and filled in order."""

import uuid
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import orjson
import pytest
from kafka import TopicPartition
from kafka.admin import ConfigResource
from kafka.structs import OffsetAndMetadata

from index import Source
from streamer.errors import BrokerUnavailable, SettingsError
from streamer.settings.parts import PARTS, Part, settings_of
from streamer.settings.settings import Settings
from streamer.transports.files.line_reader import lines
from streamer.transports.kafka import topics
from streamer.transports.kafka.clients import compacted_topics, make_admin
from streamer.transports.kafka.topics import Note, committed_offsets, create_topics, parse_note, produce, require_topics
from streamer.transports.transport import Place
from tests.support.command_line import run
from tests.support.transport_worlds import committed_records, make_settings
from tests.support.web_archives import Archive


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


def test_the_topic_of_stories_is_made_compacted_and_required_only_if_it_is_named(fresh: Settings) -> None:
    name = f"stories-{uuid.uuid4().hex[:8]}"
    named = fresh.model_copy(update={"topics": fresh.topics.model_copy(update={"stories": name})})
    create_topics(fresh, 1, 1)
    require_topics(fresh)
    with pytest.raises(SettingsError, match=rf"no topic '{name}'"):
        require_topics(named)
    assert create_topics(named, 1, 1)[name] == "created"
    require_topics(named)
    assert compacted_topics(named, [name, named.topics.unique]) == [name]


def with_parts(settings: Settings) -> Settings:
    names = {key: f"{getattr(settings.topics, key)}-{uuid.uuid4().hex[:8]}" for key in ("fingerprints", "verdicts")}
    return settings.model_copy(update={"topics": settings.topics.model_copy(update=names)})


@pytest.mark.parametrize(
    ("text", "foreign"),
    [
        ("", True),
        (None, True),
        ("spark 3.5", True),
        ("5f9c2a4e-8c1b-4d1a-9d53-0a54c2f4f1b7", False),
        ("5f9c2a4e-8c1b-4d1a-9d53-0a54c2f4f1b7 index", False),
    ],
)
def test_an_offset_whose_note_names_no_topic_is_of_another_program(text: str | None, foreign: bool) -> None:
    assert parse_note(text).claim(7).foreign is foreign


def test_topics_between_parts_are_made_when_asked_for_and_brokers_set_the_times_of_their_records(
    fresh: Settings,
) -> None:
    settings = with_parts(fresh)
    topics = settings.topics
    assert create_topics(settings, 2, 1).keys() == create_topics(fresh, 2, 1).keys()
    with pytest.raises(SettingsError, match=r"no topic .*topics create --parts"):
        require_topics(settings_of(settings, "decide"))
    made = create_topics(settings, 2, 1, parts=True)
    assert {made[topics.fingerprints], made[topics.verdicts]} == {"created"}
    with make_admin(settings) as admin:
        names = (topics.fingerprints, topics.verdicts)
        wanted = [ConfigResource("topic", name, {"message.timestamp.type": None}) for name in names]
        found = admin.describe_configs(wanted, config_filter="all")["topic"]
    assert {found[name]["message.timestamp.type"]["value"] for name in names} == {"LogAppendTime"}
    for part in PARTS:
        require_topics(settings_of(settings, part))


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_refused_where_two_topics_have_different_numbers_of_partitions(fresh: Settings, part: Part) -> None:
    settings = with_parts(fresh)
    topics = settings.topics
    create_topics(settings, 2, 1)
    one, other = {
        "fingerprint": (topics.input, topics.fingerprints),
        "decide": (topics.fingerprints, topics.verdicts),
        "route": (topics.input, topics.verdicts),
    }[part]
    with make_admin(settings) as admin:
        for name, count in ((topics.fingerprints, 2), (topics.verdicts, 2)):
            wanted = 3 if name == other else count
            admin.create_topics({name: {"num_partitions": wanted, "replication_factor": 1}})
        admin.wait_for_topics([topics.fingerprints, topics.verdicts])
    with pytest.raises(SettingsError, match=f"{one}.* has 2 partitions and '{other}' has 3.*Add partitions to '{one}'"):
        require_topics(settings_of(settings, part))
    require_topics(settings)


def test_more_replicas_than_brokers_are_refused_in_plain_words(fresh: Settings) -> None:
    with pytest.raises(SettingsError, match=r"refuses to create topic 'documents-.*[Rr]eplication"):
        create_topics(fresh, 1, 3)


def test_the_loader_writes_every_value_in_order(fresh: Settings) -> None:
    create_topics(fresh, 1, 1)
    values = [f"document {number}".encode() for number in range(6_000)]
    assert produce(fresh, fresh.topics.input, iter(values)) == 6_000
    found = committed_records(fresh.kafka.bootstrap_servers[0], fresh.topics.input)
    assert [each.value for each in found] == values


def test_pages_of_an_archive_are_sent_a_line_each_and_what_is_no_page_is_told(fresh: Settings, tmp_path: Path) -> None:
    create_topics(fresh, 1, 1)
    archive = Archive()
    archive.add("request", "http://a.example/1", b"", http=[("Host", "a.example")])
    archive.page("http://a.example/1", "<p>The ferry, 渡轮</p>")
    (tmp_path / "crawl.warc.gz").write_bytes(archive.members)
    server = f"kafka.bootstrap_servers={fresh.kafka.bootstrap_servers[0]}"
    done = run("topics", "produce", tmp_path / "crawl.warc.gz", "--topic", fresh.topics.input, "--set", server)
    assert (done.code, done.out) == (0, f"1\t{fresh.topics.input}\n")
    assert "no documents: request 1" in done.err
    found = committed_records(fresh.kafka.bootstrap_servers[0], fresh.topics.input)
    assert [each.value for each in found] == list(lines(tmp_path / "crawl.warc.gz"))
    assert "渡轮" in orjson.loads(found[0].value or b"")["text"]


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
        (Note("stream", place=Place("other", 7)), "stream place=other:7"),
        (Note("stream", "index", False, Place("other", 7)), "stream index restoring place=other:7"),
    ],
)
def test_a_note_is_read_as_it_was_written(note: Note, text: str) -> None:
    assert note.text() == text
    assert parse_note(text) == note


def test_an_offset_without_a_note_says_nothing() -> None:
    assert parse_note(None) == Note("")


def test_offsets_in_other_topics_and_of_partitions_that_nobody_read_are_no_committed_offsets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = make_settings()
    name = settings.topics.input
    offsets = {
        TopicPartition(topic, partition): OffsetAndMetadata(offset, note, -1)
        for topic, partition, offset, note in [
            (name, 0, 0, "stream"),
            (name, 1, 7, ""),
            (name, 2, -1, ""),
            ("another", 3, 9, ""),
        ]
    }
    admin = SimpleNamespace(list_group_offsets=lambda groups: dict.fromkeys(groups, offsets))
    monkeypatch.setattr(topics.clients, "asking", lambda *_: nullcontext(admin))
    monkeypatch.setattr(topics.clients, "topic_ids", lambda *_: {name: "its id"})
    assert committed_offsets(settings) == {Source("stream", 0): 0, Source("its id", 1): 7}
