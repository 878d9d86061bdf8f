"""The words behind decisions, over records that a test hands in."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson
import pytest

from index.entry import Kind, Position, Source
from index.index import Index
from index.session import Guard
from streamer.errors import BrokerUnavailable
from streamer.explain.explanation import Explanation
from streamer.explain.texts import comparable_scheme, with_texts
from streamer.explain.why import explain
from streamer.fingerprint.documents import prepare
from streamer.fingerprint.scheme import parameters_for, scheme_for
from streamer.records.decode import Decoder
from streamer.records.reason import Reason
from streamer.records.record import Record
from streamer.settings.settings import Settings, load
from streamer.transports.output_log import Absent, RecordsByPosition
from tests.support.entries import Row, entries_of
from tests.support.indexes import MAP_BYTES_MAX

SOURCE = Source("stream", 0)
BODY = " ".join(f"word{number}" for number in range(80))
SIMHASH = ("fingerprint.scheme=simhash",)


def record(offset: int, **fields: str) -> Record:
    return Record(SOURCE, "news", offset, None, orjson.dumps(fields), 1_700_000_000_000)


class World:
    """An index that decided some records, and the records of now."""

    def __init__(self, directory: Path, records: Sequence[Record], *overrides: str, guard: Guard | None = None) -> None:
        self.settings = load(overrides=[f"index.directory={directory}", *overrides])
        scheme = scheme_for(self.settings)
        self.index = Index.open(
            directory,
            parameters_for(self.settings, scheme.stamp()),
            map_bytes_max=MAP_BYTES_MAX,
            guard=guard or Guard(),
        )
        self.index.begin(SOURCE, "news", 0)
        self.index.admit(prepare(Decoder(self.settings.decode), scheme, records), {SOURCE: len(records)})
        self.now: dict[Position, Record | Absent] = {Position(SOURCE, each.offset): each for each in records}
        self.asked: list[Position] = []

    def read(self, positions: Sequence[Position], _names: Mapping[str, str]) -> RecordsByPosition:
        self.asked += positions
        return {position: self.now[position] for position in positions}

    def told(self, id_: str, settings: Settings | None = None, *, full: bool = False) -> Explanation:
        settings = settings or self.settings
        answer = with_texts(explain(self.index, settings, id_), self.index, settings, self.read, full=full)
        return answer.explanations[0]


PAIR = (record(0, id="one", title="T", text=f"{BODY} end"), record(1, id="copy", title="T", text=f"{BODY} finish"))


@pytest.mark.parametrize("overrides", [(), SIMHASH])
def test_what_entered_nothing_is_read_again_and_tells_what_is_near(tmp_path: Path, overrides: Sequence[str]) -> None:
    told = World(tmp_path, PAIR, *overrides).told("copy")
    assert told.near is not None
    assert told.likeness is not None
    (near,) = told.near
    assert (near.id, near.relation, near.why_not, near.later) == ("one", "original", "", False)
    assert (near.likeness.similarity, near.likeness.distance) == (told.likeness.similarity, told.likeness.distance)
    assert (near.likeness.cosine, told.likeness.cosine is None) == (told.likeness.cosine, not overrides)
    assert told.fingerprint is not None
    assert told.texts is not None
    assert told.texts.other is not None
    assert told.texts.changes == 1
    assert [span.text for span in told.texts.own.spans if span.kind == "differing"] == ["finish"]
    assert [span.text for span in told.texts.other.spans if span.kind == "differing"] == ["end"]
    assert (told.texts.own.title, told.texts.own.characters) == ("T", len(f"{BODY} finish"))


def test_a_unique_document_is_held_against_the_nearest(tmp_path: Path) -> None:
    other = record(2, id="near", text=" ".join([*BODY.split()[:58], *(f"new{number}" for number in range(14))]))
    told = World(tmp_path, [*PAIR, other]).told("near")
    assert (told.verdict, told.near and told.near[0].why_not) == ("unique", "not near enough")
    assert told.texts is not None
    assert (told.texts.other and told.texts.other.role, told.texts.other and told.texts.other.id) == ("nearest", "one")


def test_a_text_that_is_gone_says_why_and_the_other_one_is_shown(tmp_path: Path) -> None:
    world = World(tmp_path, PAIR)
    world.now[Position(SOURCE, 0)] = Absent("the topic has deleted it")
    texts = world.told("copy").texts
    assert texts is not None
    assert texts.other is not None
    assert (texts.other.missing, texts.changes, bool(texts.own.spans)) == ("the topic has deleted it", None, True)
    world.now[Position(SOURCE, 0)], world.now[Position(SOURCE, 1)] = PAIR[0], Absent("it is gone")
    told = world.told("copy")
    assert (told.texts and told.texts.own.missing, told.near) == ("it is gone", None)
    assert told.texts
    assert told.texts.other
    assert told.texts.other.spans


def test_another_record_at_the_position_is_not_taken_for_it(tmp_path: Path) -> None:
    world = World(tmp_path, PAIR)
    world.now[Position(SOURCE, 1)] = record(1, id="changed", text=BODY)
    texts = world.told("copy").texts
    assert texts is not None
    assert "another id, 'changed'" in texts.own.missing
    assert texts.own.spans == ()


def test_what_ended_every_process_is_not_decoded_again(tmp_path: Path) -> None:
    world = World(tmp_path, PAIR)
    for offset, reason in ((5, Reason.POISON), (6, Reason.UNREADABLE)):
        row = Row(offset, 0, SOURCE, Kind.DEAD_LETTER, reason, id=f"dead {offset}")
        world.index.admit(entries_of([row], world.index.parameters.bits), {SOURCE: offset + 1})
        texts = world.told(f"dead {offset}").texts
        assert texts is not None
        assert texts.own.missing
    assert world.asked == []


def test_a_dead_letter_tells_the_decoders_words_and_one_that_is_none_now_says_so(tmp_path: Path) -> None:
    broken = Record(SOURCE, "news", 0, b"broken", b'{"text": 7, "body": "fine"}', 0)
    world = World(tmp_path, [broken])
    told = world.told("broken")
    assert told.notes == ("Decoding it again fails: /text is a number, not a string.",)
    assert told.texts is not None
    assert told.texts.own.spans[0].text == '{"text": 7, "body": "fine"}'
    now = world.told("broken", load(overrides=["decode.text=/body", f"index.directory={tmp_path}"]))
    assert "The settings in force decode it" in now.notes[0]
    assert now.near == ()


def test_settings_that_give_other_fingerprints_tell_nothing_near(tmp_path: Path) -> None:
    world = World(tmp_path, PAIR)
    others = load(overrides=["minhash.shingle_characters_narrow=6", f"index.directory={tmp_path}"])
    told = world.told("copy", others)
    assert (told.near, "other fingerprints" in told.notes[-1]) == (None, True)
    assert told.texts is not None
    assert told.texts.changes == 1
    stricter = load(overrides=["minhash.similarity_min=0.9", "index.insert=root", f"index.directory={tmp_path}"])
    assert comparable_scheme(world.index, stricter).stamp() == world.index.parameters.fingerprint
    assert world.told("copy", stricter).near


def test_a_site_beyond_the_limits_of_the_guard_is_named(tmp_path: Path) -> None:
    pages = [record(n, id=f"page {n}", host="shop.example", text=f"{BODY} end{n} of{n}") for n in range(12)]
    world = World(tmp_path, pages, guard=Guard(share_max=0.5, documents_min=5))
    assert any("shop.example" in note and "template" in note for note in world.told("page 11").notes)
    assert not any("template" in note for note in World(tmp_path / "other", PAIR).told("copy").notes)


def test_markup_that_is_not_compared_is_not_shown(tmp_path: Path) -> None:
    pair = (record(0, id="one", text=f"<p>{BODY}</p>"), record(1, id="copy", text=f"<div class=x>{BODY}</div>"))
    texts = World(tmp_path, pair, "fingerprint.markup=html").told("copy", full=True).texts
    assert texts is not None
    assert (texts.changes, [span.text for span in texts.own.spans]) == (0, [BODY])


def test_brokers_that_do_not_answer_leave_what_the_index_knows(tmp_path: Path) -> None:
    world = World(tmp_path, PAIR)

    def silent(_: Sequence[Position], _names: Mapping[str, str]) -> Mapping[Position, Record | Absent]:
        raise BrokerUnavailable("no answer from 127.0.0.1:9")

    before = explain(world.index, world.settings, "copy")
    answer = with_texts(before, world.index, world.settings, silent)
    assert (answer.explanations, answer.no_texts) == (before.explanations, "no answer from 127.0.0.1:9")
