import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.entry import EXTENDING, NO_DISTANCE, NO_NUMBER, Decisions, Insert, Position, Source, Verdict
from streamer.records import route as module
from streamer.records.decode import DeadLetter, Document
from streamer.records.lines import verdict_lines
from streamer.records.output_headers import parse_headers
from streamer.records.reason import Reason, labels
from streamer.records.record import Decision, Destination, Headers, Lost, Outgoing, ProtectedMatch, Record
from streamer.records.relation import Measure
from streamer.records.route import (
    Router,
    explain,
    parse_original_position,
    parse_position,
    restored_as,
    restoring_outputs,
    restoring_verdict,
)
from tests.support.examples import examples
from tests.support.paths import DOCS

TASK = {"connector_name": "neardup", "task_id": "0-0"}


SOURCE = Source("Kz0vPqXsQeOq4wYw2m0C3w", 3)
ORIGINAL = Position(Source("Kz0vPqXsQeOq4wYw2m0C3w", 0), 98_765)
NAMES = {"Kz0vPqXsQeOq4wYw2m0C3w": "documents"}
FINGERPRINT = "9f4ad8c0b1e62735"


def record(value: bytes | None = b"value", headers: Headers = (), topic: str = "documents") -> Record:
    return Record(SOURCE, topic, 123_456, b"key", value, 1_700_000_000_000, headers)


def document(identity: str = "d2") -> Document:
    return Document(identity, "text", "", 0, None, ())


def decided(
    verdict: Verdict,
    reason: Reason = Reason.ORDINARY,
    *,
    distance: int = NO_DISTANCE,
    original_id: str | None = None,
    original: Position | None = None,
    replayed: bool = False,
    ratio: int = 0,
) -> Decisions:
    return Decisions(
        verdicts=np.array([verdict], dtype=np.uint8),
        reasons=np.array([reason], dtype=np.uint8),
        distances=np.array([distance], dtype=np.int16),
        originals=np.array([NO_NUMBER], dtype=np.uint64),
        original_ids=[original_id],
        original_positions=[original],
        replayed=np.array([replayed], dtype=np.bool_),
        candidates=np.array([0], dtype=np.int64),
        ratios=np.array([ratio], dtype=np.uint16),
    )


def verdict_line(outgoing: Outgoing) -> bytes:
    line = verdict_lines([outgoing])
    assert line.endswith(b"\n")
    return line[:-1]


DUPLICATE = decided(Verdict.DUPLICATE, distance=2, original_id="d1", original=ORIGINAL)
NOT_JSON = DeadLetter(Reason.NOT_JSON, "unexpected end of data: line 1 column 2 (char 1)", "key")


def explained(
    decisions: Decisions,
    decoded: Document | DeadLetter | None = None,
    fingerprint: str | None = FINGERPRINT,
) -> Decision:
    (decision,) = explain([record()], [decoded or document()], [fingerprint], decisions, NAMES)
    return decision


def sent(decision: Decision, original: Record | None = None) -> Outgoing:
    (outgoing,) = Router(**TASK).route([original or record()], [decision])
    return outgoing


def texts(headers: Headers) -> dict[str, str | None]:
    return {name: None if value is None else value.decode() for name, value in headers}


# --- explain ---


def test_a_unique_document_is_explained_by_its_fingerprint_alone() -> None:
    assert explained(decided(Verdict.UNIQUE)) == Decision(Verdict.UNIQUE, "no-match", "d2", FINGERPRINT)


def test_a_duplicate_names_its_original_and_the_distance() -> None:
    decision = explained(DUPLICATE)

    assert decision == Decision(
        Verdict.DUPLICATE,
        "similar",
        "d2",
        FINGERPRINT,
        2,
        "d1",
        "documents/0/98765",
        original_stream="Kz0vPqXsQeOq4wYw2m0C3w",
    )


@pytest.mark.parametrize(
    ("verdict", "reason"), [(Verdict.SUSPECT, "host-beyond-limits"), (Verdict.UPDATE, "recrawled")]
)
def test_suspects_and_updates_are_explained_as_duplicates_and_go_with_the_unique_ones(
    verdict: Verdict, reason: str
) -> None:
    decision = explained(decided(verdict, distance=2, original_id="d1", original=ORIGINAL))
    assert (decision.reason, decision.original_id, decision.distance) == (reason, "d1", 2)
    outgoing = sent(decision)
    assert outgoing.destination is Destination.UNIQUE
    told = parse_headers(outgoing.headers, Destination.UNIQUE)
    assert (told.verdict, told.original, told.contradicts) == (verdict, ORIGINAL, "")
    assert "does not belong" in parse_headers(outgoing.headers, Destination.DUPLICATE).contradicts
    nameless = tuple(header for header in outgoing.headers if not header[0].startswith("neardup.original"))
    assert parse_headers(nameless, Destination.UNIQUE).contradicts == "there is no original"


def test_a_page_of_a_template_is_unique_by_its_reason_and_names_what_it_resembles() -> None:
    decisions = decided(Verdict.TEMPLATE, distance=1_234, original_id="d1", original=ORIGINAL)
    (decision,) = explain([record()], [document()], [FINGERPRINT], decisions, NAMES, Measure(by_similarity=True))
    assert (decision.reason, decision.original_id, decision.similarity) == ("template", "d1", 0.8766)
    outgoing = sent(decision)
    assert outgoing.destination is Destination.UNIQUE
    assert texts(outgoing.headers)["neardup.verdict"] == "unique"
    told = parse_headers(outgoing.headers, Destination.UNIQUE)
    assert (told.verdict, told.original, told.distance, told.contradicts) == (Verdict.TEMPLATE, ORIGINAL, 1_234, "")
    line = orjson.loads(verdict_line(outgoing))
    assert (line["verdict"], line["reason"], line["original"], line["similarity"]) == (
        "unique",
        "template",
        "d1",
        0.8766,
    )
    plain = parse_headers(sent(explained(decided(Verdict.UNIQUE))).headers, Destination.UNIQUE)
    assert (plain.verdict, plain.contradicts) == (Verdict.UNIQUE, "")


def test_the_line_of_an_archives_page_names_its_url() -> None:
    page = orjson.dumps(
        {
            "id": "<urn:uuid:1>",
            "url": 'https://a.example/"é\\"',
            "time": "2026-11-22T10:00:00Z",
            "type": "response",
            "text": "a",
        }
    )
    for value, url in (
        (page, 'https://a.example/"é\\"'),
        (page.replace(b'"id":"<urn:uuid:1>",', b""), 'https://a.example/"é\\"'),
        (page.replace(b'"time":"2026-11-22T10:00:00Z",', b""), 'https://a.example/"é\\"'),
        (page.replace(b"response", b"conversion"), 'https://a.example/"é\\"'),
        (page.replace("é".encode(), b"\xff"), None),
        (page.replace("é".encode(), b"\\ud800"), None),
        (page.replace(b"response", b"article"), None),
        (b'{"id":"a","url":"https://a.example","text":"a"}', None),
        (b'{"url":5,"type":"response"}', None),
        (b'{"id":"' + b"a" * 1_000_000, None),
        (None, None),
    ):
        outgoing = sent(explained(decided(Verdict.UNIQUE)))
        line = orjson.loads(verdict_line(replace(outgoing, record=replace(outgoing.record, value=value))))
        assert line.get("url") == url


BY_SHINGLES = Measure(by_similarity=True, of_shingles=True)


def test_a_longer_version_is_kept_and_says_how_it_stands_to_its_original() -> None:
    decisions = decided(Verdict.EXTENDS, distance=1_500, original_id="d1", original=ORIGINAL, ratio=1_143)
    (decision,) = explain([record()], [document()], [FINGERPRINT], decisions, NAMES, BY_SHINGLES)
    assert (decision.reason, decision.relation, decision.length, decision.new) == ("longer", "longer", 1.143, 0.139)
    outgoing = sent(decision)
    assert outgoing.destination is Destination.UNIQUE
    headers = texts(outgoing.headers)
    assert headers["neardup.verdict"] == "extends"
    assert [headers[f"neardup.{name}"] for name in ("relation", "length", "new")] == ["longer", "1.143", "0.139"]
    told = parse_headers(outgoing.headers, Destination.UNIQUE)
    assert (told.verdict, told.original, told.contradicts) == (Verdict.EXTENDS, ORIGINAL, "")
    assert (told.relation, told.length, told.new) == ("longer", 1.143, 0.139)
    line = orjson.loads(verdict_line(outgoing))
    assert list(line)[-4:] == ["similarity", "relation", "length", "new"]
    assert (line["relation"], line["length"], line["new"]) == ("longer", 1.143, 0.139)


def test_bits_measure_lengths_and_no_new_text() -> None:
    by_bits = explained(decided(Verdict.DUPLICATE, distance=2, original_id="d1", original=ORIGINAL, ratio=800))
    assert (by_bits.relation, by_bits.length, by_bits.new) == ("shorter", 0.8, None)
    assert "neardup.new" not in texts(sent(by_bits).headers)


def test_a_relation_without_an_original_or_of_another_name_contradicts() -> None:
    plain = sent(explained(decided(Verdict.UNIQUE))).headers
    lengths = (("neardup.relation", b"edited"), ("neardup.length", b"1.000"))
    assert "does not belong" in parse_headers((*plain, *lengths), Destination.UNIQUE).contradicts
    drop = sent(explained(DUPLICATE)).headers
    assert parse_headers((*drop, *lengths), Destination.DUPLICATE).contradicts == ""
    wrong = (("neardup.relation", b"akin"), ("neardup.length", b"1.000"))
    assert "'akin'" in parse_headers((*drop, *wrong), Destination.DUPLICATE).contradicts
    wrong = (("neardup.relation", b"edited"), ("neardup.length", b"long"))
    assert "no number" in parse_headers((*drop, *wrong), Destination.DUPLICATE).contradicts


def test_longer_versions_enter_a_lost_index_with_the_unique_ones() -> None:
    found = [record(headers=(("neardup.verdict", label),)) for label in (b"unique", b"extends", b"given-back")]
    assert restored_as(Verdict.UNIQUE, found) == found[:2]
    assert restored_as(Verdict.GIVEN_BACK, found) == found[2:]


def test_suspects_and_no_others_enter_a_lost_index_as_suspects() -> None:
    found = [
        record(headers=(("neardup.verdict", label),)) for label in (b"unique", b"suspect", b"undecidable", b"duplicate")
    ]
    page = record(headers=(("neardup.verdict", b"unique"), ("neardup.reason", b"template")))
    update = record(headers=(("neardup.verdict", b"update"), ("neardup.reason", b"recrawled")))
    assert list(map(restoring_verdict, [page, update])) == [Verdict.TEMPLATE, Verdict.UPDATE]
    assert restored_as(Verdict.UNIQUE, [page, update]) == [page, update]
    assert restored_as(Verdict.UPDATE, [page, update]) == [update]
    assert restored_as(Verdict.SUSPECT, found) == found[1:2]
    assert restored_as(Verdict.UNIQUE, found) == [found[0], found[2]]
    assert restored_as(Verdict.DUPLICATE, found) == found[3:]


def test_updates_enter_a_lost_index_among_the_unique_ones_and_once_more_when_all_that_they_replaced_is_there() -> None:
    found = [record(headers=(("neardup.verdict", label),)) for label in (b"unique", b"update", b"suspect")]
    assert restored_as(Verdict.UNIQUE, found) == found[:2]
    assert restored_as(Verdict.UPDATE, found) == found[1:2]
    assert [restoring_verdict(each) for each in found] == [Verdict.UNIQUE, Verdict.UPDATE, Verdict.SUSPECT]


def in_shadow(decision: Decision) -> Outgoing:
    (outgoing,) = Router(**TASK, shadow=True).route([record()], [decision])
    return outgoing


def test_in_shadow_mode_a_duplicate_goes_with_the_unique_ones_and_tells_what_it_was_kept_out_of() -> None:
    dropped, kept = sent(explained(DUPLICATE)), in_shadow(explained(DUPLICATE))
    assert (dropped.destination, kept.destination) == (Destination.DUPLICATE, Destination.UNIQUE)
    assert kept.headers == (*dropped.headers, ("neardup.shadow", b"duplicate"))
    assert orjson.loads(verdict_line(kept)) == orjson.loads(verdict_line(dropped)) | {"shadow": "duplicate"}


@pytest.mark.parametrize("verdict", sorted(module.DESTINATIONS.keys() - {Verdict.DUPLICATE}))
def test_shadow_mode_changes_nothing_of_what_is_no_duplicate(verdict: Verdict) -> None:
    decision = Decision(verdict, "any", "d2")
    assert in_shadow(decision) == sent(decision)
    assert verdict_line(in_shadow(decision)) == verdict_line(sent(decision))


def test_what_was_delivered_in_shadow_mode_tells_so_or_contradicts_itself() -> None:
    headers = in_shadow(explained(DUPLICATE)).headers
    told = parse_headers(headers, Destination.UNIQUE)
    assert (told.verdict, told.shadow, told.contradicts) == (Verdict.DUPLICATE, True, "")
    assert "does not belong here" in parse_headers(headers, Destination.DUPLICATE).contradicts
    assert "does not belong here" in parse_headers(headers[:-1], Destination.UNIQUE).contradicts
    other = (*headers[:-1], ("neardup.shadow", b"dead-letter"))
    assert "nothing keeps" in parse_headers(other, Destination.UNIQUE).contradicts
    unique = (*sent(explained(decided(Verdict.UNIQUE))).headers, ("neardup.shadow", b"unique"))
    assert "nothing keeps" in parse_headers(unique, Destination.UNIQUE).contradicts


@pytest.mark.parametrize("insert", ["unique", "root"])
def test_a_lost_index_takes_its_unique_documents_first_and_duplicates_from_both_outputs(insert: Insert) -> None:
    first, second, *others = restoring_outputs(insert)
    assert first == (Destination.UNIQUE, Verdict.UNIQUE)
    assert second == (Destination.UNIQUE, Verdict.UPDATE)
    wanted = {(Destination.UNIQUE, Verdict.DUPLICATE), (Destination.DUPLICATE, Verdict.DUPLICATE)}
    assert wanted <= set(others) if insert != "unique" else not wanted & set(others)


def test_a_stream_without_a_name_stands_for_itself() -> None:
    gone = Position(Source("gone", 1), 7)

    assert explained(decided(Verdict.DUPLICATE, original=gone)).original_position == "gone/1/7"


def test_a_short_text_and_a_text_without_features_have_their_own_reasons() -> None:
    assert explained(decided(Verdict.UNIQUE, Reason.SHORT_TEXT)).reason == "short-text-new"
    assert explained(decided(Verdict.DUPLICATE, Reason.SHORT_TEXT, distance=0)).reason == "short-text-same"
    assert explained(decided(Verdict.UNDECIDABLE, Reason.NO_FEATURES), fingerprint=None) == Decision(
        Verdict.UNDECIDABLE, "no-features", "d2"
    )


def test_a_dead_letter_is_explained_by_the_decoders_complaint() -> None:
    decision = explained(decided(Verdict.DEAD_LETTER, Reason.NOT_JSON), NOT_JSON, None)

    assert decision == Decision(Verdict.DEAD_LETTER, "not-json", "key", detail=NOT_JSON.detail)


def test_where_the_journal_and_todays_decoding_differ_the_journal_wins() -> None:
    was_unique = explained(decided(Verdict.UNIQUE, replayed=True), NOT_JSON, None)
    was_dead = explained(decided(Verdict.DEAD_LETTER, Reason.TOO_LARGE, replayed=True), document())

    assert was_unique == Decision(Verdict.UNIQUE, "no-match", "key", replayed=True)
    assert sent(was_unique).destination is Destination.UNIQUE
    assert was_dead == Decision(Verdict.DEAD_LETTER, "too-large", "d2", replayed=True)
    assert texts(sent(was_dead).headers)["__connect.errors.exception.message"] == "too-large"

    was_undecidable = explained(decided(Verdict.UNDECIDABLE, Reason.NO_FEATURES, replayed=True), NOT_JSON, None)
    assert was_undecidable == Decision(Verdict.UNDECIDABLE, "no-features", "key", replayed=True)


def test_a_duplicate_without_a_distance_shows_none() -> None:
    decision = explained(decided(Verdict.DUPLICATE, original_id="d1", original=ORIGINAL))

    assert decision.distance is None
    assert "neardup.distance" not in texts(sent(decision).headers)


def test_with_minhash_a_duplicate_shows_a_similarity_and_no_distance() -> None:
    decisions = decided(Verdict.DUPLICATE, distance=1_234, original_id="d1", original=ORIGINAL)
    (decision,) = explain([record()], [document()], [FINGERPRINT], decisions, NAMES, Measure(by_similarity=True))

    assert (decision.distance, decision.similarity) == (None, 0.8766)
    assert texts(sent(decision).headers)["neardup.similarity"] == "0.8766"
    assert "neardup.distance" not in texts(sent(decision).headers)
    line = orjson.loads(verdict_line(sent(decision)))
    assert (line["distance"], line["similarity"], list(line)[-2:]) == (None, 0.8766, ["reason", "similarity"])

    restored = decided(Verdict.DUPLICATE, original_id="d1", original=ORIGINAL)
    (decision,) = explain([record()], [document()], [FINGERPRINT], restored, NAMES, Measure(by_similarity=True))
    assert decision.similarity is None
    assert "similarity" not in orjson.loads(verdict_line(sent(decision)))


def test_rows_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        explain([record(), record()], [document()], [None], decided(Verdict.UNIQUE), {})
    with pytest.raises(ValueError, match="zip"):
        Router(**TASK).route([record()], [])


# --- route ---


@pytest.mark.parametrize(
    ("verdict", "destination"),
    [
        (Verdict.UNIQUE, Destination.UNIQUE),
        (Verdict.UNDECIDABLE, Destination.UNIQUE),
        (Verdict.DUPLICATE, Destination.DUPLICATE),
        (Verdict.DEAD_LETTER, Destination.DEAD_LETTER),
    ],
)
def test_the_verdict_chooses_the_destination(verdict: Verdict, destination: Destination) -> None:
    assert sent(Decision(verdict, "any", "d")).destination is destination


def test_the_record_goes_out_as_it_came_in() -> None:
    tombstone = record(None, headers=(("a", b"1"), ("b", None), ("a", b"2")))

    outgoing = sent(Decision(Verdict.DEAD_LETTER, "tombstone", None), tombstone)

    assert outgoing.record is tombstone
    assert outgoing.headers[:3] == tombstone.headers


@pytest.mark.parametrize("verdict", list(Verdict))
def test_for_an_outside_without_headers_none_are_made_and_all_else_is_the_same(verdict: Verdict) -> None:
    original = record(headers=(("a", b"1"),))
    decision = Decision(verdict, "any", "d")

    (outgoing,) = Router(**TASK, with_headers=False).route([original], [decision])

    assert outgoing == Outgoing(sent(decision, original).destination, original, (), decision)


def test_a_unique_document_gains_no_header_of_a_duplicate() -> None:
    assert list(texts(sent(explained(decided(Verdict.UNIQUE))).headers)) == [
        "neardup.verdict",
        "neardup.reason",
        "neardup.position",
        "neardup.stream",
        "neardup.id",
        "neardup.fingerprint",
    ]


def test_headers_of_an_earlier_filter_are_replaced_and_all_others_kept() -> None:
    foreign: Headers = (
        ("neardup.verdict", b"duplicate"),
        ("trace", b"\xff"),
        ("neardup.original.id", b"forged"),
        ("neardup.stream", b"elsewhere"),
        ("neardup.anything", None),
        ("neardup", b"kept"),
        ("__connect.errors.topic", b"kept"),
    )

    headers = sent(explained(decided(Verdict.UNIQUE)), record(headers=foreign)).headers

    assert headers[:3] == (("trace", b"\xff"), ("neardup", b"kept"), ("__connect.errors.topic", b"kept"))
    names = [name for name, _ in headers]
    assert len(names) == len(set(names))
    assert "neardup.original.id" not in names
    assert "neardup.anything" not in names
    assert texts(headers[3:])["neardup.verdict"] == "unique"
    assert parse_position(headers) == Position(SOURCE, 123_456)


def test_a_dead_letter_carries_the_ten_headers_of_kafka_connect() -> None:
    dead = explained(decided(Verdict.DEAD_LETTER, Reason.NOT_JSON), NOT_JSON, None)
    (outgoing,) = Router(connector_name="my-group", task_id="2").route([record()], [dead])
    found = {
        name.removeprefix("__connect.errors."): value
        for name, value in texts(outgoing.headers).items()
        if name.startswith("__connect.errors.")
    }

    assert found == {
        "topic": "documents",
        "partition": "3",
        "offset": "123456",
        "connector.name": "my-group",
        "task.id": "2",
        "stage": "VALUE_CONVERTER",
        "class.name": "streamer.document.Decoder",
        "exception.class.name": "streamer.document.DeadLetter",
        "exception.message": "not-json: unexpected end of data: line 1 column 2 (char 1)",
        "exception.stacktrace": "streamer.document.DeadLetter: "
        "not-json: unexpected end of data: line 1 column 2 (char 1)",
    }


def test_the_classes_that_dead_letters_name_never_change() -> None:
    # Put together, so that renaming a module everywhere does not rename what others rely on.
    published = "streamer." + "document."

    found = texts(sent(explained(decided(Verdict.DEAD_LETTER, Reason.NOT_JSON), NOT_JSON, None)).headers)
    assert found["__connect.errors.class.name"] == published + "Decoder"
    assert found["__connect.errors.exception.class.name"] == published + "DeadLetter"
    assert str(found["__connect.errors.exception.stacktrace"]).startswith(published + "DeadLetter: ")


# --- positions ---


@examples(200)
@given(
    topic=st.text(st.characters(blacklist_categories=["Cs"]), max_size=12)
    | st.sampled_from(["a/b/1/2", "-", "\udcff"]),
    stream=st.text(st.characters(blacklist_categories=["Cs"]), max_size=8),
    partition=st.integers(0, 2**31 - 1),
    offset=st.integers(0, 2**63 - 1),
)
def test_a_position_is_read_back_from_the_headers_that_were_written(
    topic: str, stream: str, partition: int, offset: int
) -> None:
    source = Source(stream, partition)
    read = Record(source, topic, offset, None, b"", 0)
    decisions = decided(Verdict.DUPLICATE, original=Position(Source(stream, 5), offset))
    (decision,) = explain([read], [document()], [None], decisions, {stream: topic})
    (outgoing,) = Router(**TASK).route([read], [decision])

    assert parse_position(outgoing.headers) == Position(source, offset)
    assert parse_original_position(outgoing.headers) == Position(Source(stream, 5), offset)


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("neardup.stream", b"s"),),
        (("neardup.position", b"a/1/2"),),
        (("neardup.stream", None), ("neardup.position", b"a/1/2")),
        (("neardup.stream", b"s"), ("neardup.position", None)),
        (("neardup.stream", b"s"), ("neardup.position", b"1/2")),
        (("neardup.stream", b"s"), ("neardup.position", b"a/x/2")),
        (("neardup.stream", b"s"), ("neardup.position", b"a/-1/2")),
        (("neardup.stream", b"s"), ("neardup.position", b"a/1/")),
        (("neardup.stream", b"s"), ("neardup.position", b"a/1/" + b"9" * 5000)),
        (("neardup.stream", b"\xff"), ("neardup.position", b"a/1/2")),
    ],
)
def test_headers_that_name_no_position_give_none(headers: Headers) -> None:
    assert parse_position(headers) is None
    assert parse_original_position(headers) is None


def test_a_unique_document_names_no_original_position() -> None:
    assert parse_original_position(sent(explained(decided(Verdict.UNIQUE))).headers) is None


# --- verdict lines ---


def test_a_verdict_line_holds_exactly_these_keys() -> None:
    line = verdict_line(sent(explained(DUPLICATE)))

    assert b"\n" not in line
    assert orjson.loads(line) == {
        "source": "documents",
        "line": 123_457,
        "id": "d2",
        "verdict": "duplicate",
        "original": "d1",
        "original_source": "documents",
        "original_line": 98_766,
        "distance": 2,
        "reason": "similar",
    }


@given(
    st.lists(st.text() | st.sampled_from(['},{"source":', '"},{"source":', '\\"},{"source":"', "caf\udce9", "a\nb"]))
)
def test_each_verdict_has_a_line_of_its_own_whatever_its_texts_are(texts: list[str]) -> None:
    kept = [sent(explained(decided(Verdict.UNIQUE)), record(topic=text)) for text in texts]
    by_itself = [verdict_lines([each]) for each in kept]
    assert all(line.index(b"\n") == len(line) - 1 for line in by_itself)
    assert verdict_lines(kept) == b"".join(by_itself)


def test_a_verdict_line_of_what_has_no_original_says_null() -> None:
    line = orjson.loads(verdict_line(sent(Decision(Verdict.DEAD_LETTER, "tombstone", None))))

    assert line["id"] is line["original"] is line["distance"] is None
    assert line["verdict"] == "dead-letter"
    assert set(line) == {"source", "line", "id", "verdict", "original", "distance", "reason"}


def test_a_verdict_line_of_a_dead_letter_says_what_the_decoder_says() -> None:
    dead = explained(decided(Verdict.DEAD_LETTER, Reason.NOT_JSON), NOT_JSON, None)
    assert orjson.loads(verdict_line(sent(dead)))["detail"] == NOT_JSON.detail


def test_a_verdict_line_names_an_original_in_a_file_whose_name_has_slashes() -> None:
    decision = Decision(
        Verdict.DUPLICATE, "similar", "d2", original_id="d1", original_position="in/caf\udce9.jsonl/0/6"
    )
    line = orjson.loads(verdict_line(sent(decision)))
    assert (line["original_source"], line["original_line"]) == ("in/caf\\xe9.jsonl", 7)


def test_a_files_name_that_is_no_utf_8_can_be_written_and_shown() -> None:
    outgoing = sent(explained(decided(Verdict.UNIQUE)), record(topic="caf\udce9.jsonl"))

    assert (module.POSITION, b"caf\xe9.jsonl/3/123456") in outgoing.headers
    assert orjson.loads(verdict_line(outgoing))["source"] == "caf\\xe9.jsonl"


@examples(100)
@given(batch=st.lists(st.tuples(st.sampled_from(list(Verdict)), st.text(max_size=5), st.booleans()), max_size=20))
def test_every_record_goes_out_once_and_in_order(batch: Sequence[tuple[Verdict, str, bool]]) -> None:
    records = [
        Record(SOURCE, "t", offset, None, b"", 0, (("h", b"1"),) if header else ())
        for offset, (_, _, header) in enumerate(batch)
    ]
    decisions = [Decision(verdict, "r", identity.encode(errors="ignore").decode()) for verdict, identity, _ in batch]

    outgoing = Router(**TASK).route(records, decisions)

    assert [each.record for each in outgoing] == records
    assert [each.decision for each in outgoing] == decisions
    # Each other verdict has a destination of its own.
    with_uniques = {Verdict.UNDECIDABLE, Verdict.SUSPECT, Verdict.UPDATE, Verdict.GIVEN_BACK, *EXTENDING}
    assert [each.destination.value for each in outgoing] == [
        "unique" if verdict in with_uniques else verdict.label for verdict, _, _ in batch
    ]


# --- once more ---


def test_a_record_that_is_given_back_has_the_headers_it_came_with_and_what_names_it_and_its_original() -> None:
    came = (("trace", b"7"), ("neardup.verdict", b"somebody else's"), ("trace", b"8"))
    dropped = sent(explained(DUPLICATE), record(headers=came)).headers
    headers = module.given_back(dropped)
    assert headers[:2] == (came[0], came[2])
    names = ("position", "stream", "id", "original.id", "original.position", "original.stream")
    assert texts(headers[2:]) == {"neardup.verdict": "given-back"} | {
        name: text for name, text in texts(dropped).items() if name in {f"neardup.{each}" for each in names}
    }
    assert module.is_given_back(headers)
    assert not module.is_given_back(dropped)
    told = parse_headers(headers, Destination.UNIQUE)
    assert (told.verdict, told.contradicts, told.original) == (Verdict.GIVEN_BACK, "", ORIGINAL)
    assert "does not belong here" in parse_headers(headers, Destination.DUPLICATE).contradicts


def test_a_replayed_dead_letter_tells_on_where_it_was_and_nothing_else_of_ours() -> None:
    dead = sent(explained(decided(Verdict.DEAD_LETTER, Reason.NOT_JSON), NOT_JSON, None)).headers
    again = module.replayed(parse_headers(dead, Destination.DEAD_LETTER).kept, dead)
    assert texts(again) == {"neardup.replayed": "documents/3/123456", "neardup.replayed.stream": SOURCE.stream}
    assert module.parse_replayed_position(again) == Position(SOURCE, 123_456)
    out = sent(explained(DUPLICATE), record(headers=(("neardup.id", b"x"), *again))).headers
    assert out[:2] == again


# --- the page ---


def test_the_page_of_headers_shows_each_header_as_it_is_written() -> None:
    page = (DOCS / "headers.md").read_text()
    rows = dict(re.findall(r"^\| `([^`]+)` \| `([^`]*)` \|", page, re.MULTILINE))
    duplicate = texts(in_shadow(explained(DUPLICATE)).headers)
    dead = texts(sent(explained(decided(Verdict.DEAD_LETTER, Reason.NOT_JSON), NOT_JSON, None)).headers)

    decisions = decided(Verdict.DUPLICATE, distance=1_234, original_id="d1", original=ORIGINAL, ratio=1_048)
    (by_minhash,) = explain([record()], [document()], [FINGERPRINT], decisions, NAMES, BY_SHINGLES)
    measured = texts(sent(by_minhash).headers)
    duplicate |= {
        f"neardup.{name}": measured[f"neardup.{name}"] for name in ("similarity", "relation", "length", "new")
    }

    unreadable = replace(record(None), lost=Lost(3, "damaged"))
    offsets = texts(sent(explained(decided(Verdict.DEAD_LETTER, Reason.UNREADABLE)), unreadable).headers)
    duplicate |= {"neardup.offsets": offsets["neardup.offsets"]}
    in_a_base = replace(explained(DUPLICATE), original_stream="base:6a7ab8be707cd088/last-year:stream")
    duplicate |= {"neardup.base": texts(sent(in_a_base).headers)["neardup.base"]}
    reported = replace(explained(DUPLICATE), protected=(ProtectedMatch("evaluation", "q17", similarity=0.9136),))
    duplicate |= {"neardup.protected": texts(sent(reported).headers)["neardup.protected"]}
    duplicate |= {"neardup.shadow": texts(in_shadow(explained(DUPLICATE)).headers)["neardup.shadow"]}
    (by_settings,) = Router(**TASK, settings_digest="5d1c07ab").route([record()], [explained(DUPLICATE)])
    duplicate |= {"neardup.settings": texts(by_settings.headers)["neardup.settings"]}
    position = {"neardup.position": b"documents/3/98", "neardup.stream": SOURCE.stream.encode()}
    duplicate |= texts(module.replayed((), tuple(position.items())))

    assert rows == {**{name: value for name, value in dead.items() if name.startswith("__")}, **duplicate}
    for _, text in labels():
        assert f"`{text}`" in page
