"""Records in the wire format of a schema registry, against a registry on the loopback."""

import copy
import datetime
import decimal
import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from index import Source
from streamer.errors import RegistryUnavailable, SettingsError
from streamer.records.decode import DeadLetter, Decoder, Document
from streamer.records.reason import Reason
from streamer.records.record import Record
from streamer.settings.settings import Decode, load
from tests.support.examples import examples
from tests.support.schema_registry import PAGE, Registry, avro, framed, serving

SOURCE = Source("stream", 0)
MOMENT = datetime.datetime(2026, 11, 22, 10, tzinfo=datetime.UTC)
DATUM = {"id": "a", "url": "https://a.example/1", "crawled": MOMENT, "text": "The ferry, 渡轮"}


@pytest.fixture(scope="module")
def server() -> Iterator[Registry]:
    with serving(Registry()) as registry:
        yield registry


@pytest.fixture
def registry(server: Registry) -> Registry:
    server.schemas.clear()
    server.subjects.clear()
    server.asked.clear()
    server.credentials = server.instead = None
    server.byte_seconds = 0.0
    server.add(7, PAGE)
    return server


def records(*values: bytes) -> list[Record]:
    return [Record(SOURCE, "pages", offset, None, value, 0) for offset, value in enumerate(values)]


def decoder(registry: Registry, timeout_ms: int = 5_000, **more: Any) -> Decoder:
    return Decoder(
        Decode(format="avro", registry_url=registry.url, time="/crawled", registry_timeout_ms=timeout_ms, **more)
    )


def one(found: list[Document | DeadLetter]) -> Document | DeadLetter:
    (document,) = found
    return document


def letter(found: list[Document | DeadLetter]) -> DeadLetter:
    document = one(found)
    assert isinstance(document, DeadLetter)
    return document


def test_a_record_of_avro_becomes_a_document_by_the_fields_of_the_settings(registry: Registry) -> None:
    found = one(decoder(registry).decode(records(avro(7, PAGE, DATUM))))
    time_ms = round(MOMENT.timestamp() * 1000)
    assert found == Document("a", "The ferry, 渡轮", "", time_ms, "a.example", ())


def test_a_schema_is_asked_for_once_whatever_the_number_of_records_and_batches(registry: Registry) -> None:
    registry.add(8, PAGE)
    reading = decoder(registry)
    reading.decode(records(*[avro(7, PAGE, DATUM)] * 100))
    reading.decode(records(*[avro(number, PAGE, DATUM) for number in (7, 8, 7, 8)]))
    reading.decode(records(avro(8, PAGE, DATUM)))
    assert registry.asked == ["/schemas/ids/7", "/schemas/ids/8"]


def test_each_record_is_read_by_the_schema_that_it_names(registry: Registry) -> None:
    newer = copy.deepcopy(PAGE)
    newer["fields"] = [{"name": "crawler", "type": "string"}, *PAGE["fields"]]
    registry.add(8, newer)
    found = decoder(registry).decode(
        records(avro(7, PAGE, DATUM), avro(8, newer, DATUM | {"crawler": "b"}), avro(7, PAGE, DATUM | {"id": "c"}))
    )
    assert [each.id for each in found] == ["a", "a", "c"]


def test_an_unknown_schema_is_a_dead_letter_and_is_asked_for_again_with_the_next_batch(registry: Registry) -> None:
    reading = decoder(registry)
    assert letter(reading.decode(records(avro(9, PAGE, DATUM)))) == DeadLetter(
        Reason.SCHEMA_UNKNOWN, "schema 9: not found", None
    )
    registry.add(9, PAGE)
    assert one(reading.decode(records(avro(9, PAGE, DATUM)))).id == "a"


@pytest.mark.parametrize(
    ("kind", "words"), [("JSON", 'set decode.format = "json-schema"'), ("PROTOBUF", "PROTOBUF, which is not read")]
)
def test_a_schema_of_another_kind_is_named(registry: Registry, kind: str, words: str) -> None:
    registry.add(9, {}, schemaType=kind)
    found = letter(decoder(registry).decode(records(framed(9, b"{}"))))
    assert found.reason is Reason.SCHEMA_UNKNOWN
    assert words in found.detail


@pytest.mark.parametrize("schema", ['"no such type"', "{", '{"type": "record"}', "7"])
def test_what_is_no_schema_is_named(registry: Registry, schema: str) -> None:
    registry.schemas[9] = {"schema": schema}
    found = letter(decoder(registry).decode(records(framed(9, b"\0"))))
    assert found.reason is Reason.SCHEMA_UNKNOWN
    assert found.detail.startswith("schema 9 of the registry is no schema of Avro")


def test_schemas_that_refer_to_others_are_read_with_them(registry: Registry) -> None:
    host = {"type": "record", "name": "org.Host", "fields": [{"name": "name", "type": "string"}]}
    origin = {"type": "record", "name": "org.Origin", "fields": [{"name": "host", "type": "org.Host"}]}
    registry.subjects["host-value", 2] = {"schema": json.dumps(host)}
    registry.subjects["origin", 1] = {
        "schema": json.dumps(origin),
        "references": [{"name": "org.Host", "subject": "host-value", "version": 2}],
    }
    fields = [{"name": "text", "type": "string"}, {"name": "origin", "type": "org.Origin"}]
    registry.add(
        9,
        {"type": "record", "name": "Page", "fields": fields},
        references=[{"name": "org.Origin", "subject": "origin", "version": 1}],
    )
    whole = {
        "type": "record",
        "name": "Page",
        "fields": [
            fields[0],
            {"name": "origin", "type": origin | {"fields": [{"name": "host", "type": host}]}},
        ],
    }
    value = avro(9, whole, {"text": "a", "origin": {"host": {"name": "a.example"}}})
    found = one(decoder(registry, host="/origin/host/name").decode(records(value)))
    assert isinstance(found, Document)
    assert found.host == "a.example"


def test_references_in_a_circle_are_named(registry: Registry) -> None:
    circle = {"schema": '"string"', "references": [{"name": "a", "subject": "a", "version": 1}]}
    registry.subjects["a", 1] = registry.schemas[9] = circle
    assert "circle" in letter(decoder(registry).decode(records(framed(9, b"\0")))).detail


def test_all_that_avro_knows_has_a_form_in_json(registry: Registry) -> None:
    def logical(kind: str, name: str, **more: object) -> dict[str, object]:
        return {"name": name, "type": {"type": kind, "logicalType": name, **more}}

    schema = {
        "type": "record",
        "name": "All",
        "fields": [
            {"name": "text", "type": "bytes"},
            {"name": "raw", "type": "bytes"},
            logical("bytes", "decimal", precision=5, scale=2),
            logical("string", "uuid"),
            logical("int", "date"),
            {"name": "map", "type": {"type": "map", "values": "double"}},
            {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        ],
    }
    registry.add(9, schema)
    datum = {
        "text": "渡轮".encode(),
        "raw": b"\xff",
        "decimal": decimal.Decimal("1.50"),
        "uuid": uuid.UUID(int=1),
        "date": MOMENT.date(),
        "map": {"a": 0.5},
        "kind": "B",
    }
    metadata = ["/raw", "/decimal", "/uuid", "/date", "/map/a", "/kind"]
    found = one(decoder(registry, metadata=metadata).decode(records(avro(9, schema, datum))))
    assert isinstance(found, Document)
    assert found.text == "渡轮"
    assert found.metadata == ("ÿ", "1.50", str(uuid.UUID(int=1)), "2026-11-22", "0.5", "B")


@examples(300)
@given(wild=st.binary(max_size=60))
def test_any_bytes_are_a_document_or_a_dead_letter_with_a_reason(server: Registry, wild: bytes) -> None:
    server.schemas[7] = {"schema": json.dumps(PAGE)}
    whole, reading = avro(7, PAGE, DATUM), decoder(server)
    for value in (framed(7, wild), whole + wild, whole[: len(wild)], wild):
        found = one(reading.decode(records(value)))
        assert isinstance(found, Document | DeadLetter)
        if isinstance(found, DeadLetter):
            assert found.detail
        elif not value.lstrip().startswith(b"{"):
            assert value.startswith(b"\0\0\0\0\7")


def test_what_is_left_over_behind_a_record_is_told(registry: Registry) -> None:
    found = letter(decoder(registry).decode(records(avro(7, PAGE, DATUM) + b"!")))
    assert (found.reason, found.detail) == (
        Reason.NOT_AVRO,
        "the value is not Avro of schema 7: ValueError: 1 bytes are left over",
    )


def test_plain_json_among_the_records_is_read_as_it_was_before_they_had_schemas(registry: Registry) -> None:
    assert one(decoder(registry).decode(records(b'{"id": "b", "text": "c"}'))).id == "b"
    found = letter(decoder(registry).decode(records(b"words")))
    assert found.reason is Reason.NOT_OF_REGISTRY
    assert found.detail == "the value begins with b'w', not with byte 0 and the id of a schema"
    assert registry.asked == []


@pytest.mark.parametrize(
    ("instead", "words"),
    [
        ((500, b'{"error_code":50001,"message":"store is down"}'), "500 Internal Server Error"),
        ((404, b"<html>no such page"), "404 Not Found"),
        ((200, b"<html>welcome"), "Expecting value"),
        ((200, b"[]"), "the answer is no object"),
    ],
)
def test_a_registry_that_cannot_be_asked_stops_the_batch_and_costs_no_record(
    registry: Registry, instead: tuple[int, bytes], words: str
) -> None:
    reading = decoder(registry)
    registry.instead = instead
    with pytest.raises(RegistryUnavailable, match=r"decode\.registry_url") as told:
        reading.decode(records(avro(7, PAGE, DATUM)))
    assert words in str(told.value)
    assert "none is lost" in str(told.value)
    registry.instead = None
    assert one(reading.decode(records(avro(7, PAGE, DATUM)))).id == "a"


def test_a_registry_that_is_gone_is_no_trouble_for_schemas_that_are_known() -> None:
    with serving(Registry()) as registry:
        registry.add(7, PAGE)
        reading = decoder(registry)
        reading.decode(records(avro(7, PAGE, DATUM)))
    assert one(reading.decode(records(avro(7, PAGE, DATUM)))).id == "a"
    with pytest.raises(RegistryUnavailable, match="refused"):
        reading.decode(records(avro(8, PAGE, DATUM)))


def test_the_registry_is_asked_with_the_credentials_of_the_settings(registry: Registry) -> None:
    registry.credentials = "reader:s3cret"
    right = decoder(registry, registry_user="reader", registry_password=SecretStr("s3cret"))
    assert one(right.decode(records(avro(7, PAGE, DATUM)))).id == "a"
    with pytest.raises(RegistryUnavailable, match="401") as told:
        decoder(registry).decode(records(avro(7, PAGE, DATUM)))
    assert "s3cret" not in str(told.value)


def test_json_behind_the_id_of_a_schema_needs_no_registry() -> None:
    reading = Decoder(Decode(format="json-schema"))
    assert one(reading.decode(records(framed(3, b'{"id": "a", "text": "b"}')))).id == "a"
    assert letter(reading.decode(records(framed(3, b"\x08\2a")))).reason is Reason.NOT_JSON
    assert letter(reading.decode(records(b"\0\0"))).reason is Reason.NOT_OF_REGISTRY


def test_without_a_format_the_first_record_says_what_it_looks_like(registry: Registry) -> None:
    found = letter(Decoder(Decode()).decode(records(avro(7, PAGE, DATUM))))
    assert found.reason is Reason.NOT_UTF_8
    assert found.detail == "this looks like the wire format of a schema registry: set decode.format"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["decode.format=protobuf"], "(Protobuf is not read: convert it to one of these)"),
        (["decode.format=avro"], "decode.registry_url (unset) must be set, as required by decode.format"),
        (["decode.registry_url=http://a"], "decode.registry_url"),
        (["decode.format=avro", "decode.registry_url=registry:8081"], "a URL such as https://registry:8081"),
        (["decode.format=avro", "decode.registry_url=http://a", "decode.registry_user=a"], "must be set together with"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_the_start(options: list[str], words: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load(overrides=options, environment={})
    assert words in str(refused.value)


def test_a_file_of_certificates_that_cannot_be_read_is_named(tmp_path: Any) -> None:
    with pytest.raises(SettingsError, match=r"decode\.registry_cafile"):
        Decoder(Decode(format="avro", registry_url="https://a", registry_cafile=tmp_path / "gone.pem"))


def test_an_answer_that_comes_byte_by_byte_is_given_up_like_one_that_does_not_come(registry: Registry) -> None:
    """Each byte comes in time, and all of them do not: the wait for them would be taken for a deadly record."""
    registry.add(7, PAGE)
    registry.byte_seconds = 0.02
    with pytest.raises(
        RegistryUnavailable, match=r"decode\.registry_url: .*schemas/ids/7 cannot be asked \(timed out\)"
    ):
        decoder(registry, timeout_ms=500).look_up(records(avro(7, PAGE, DATUM)))
