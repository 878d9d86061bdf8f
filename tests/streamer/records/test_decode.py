import gzip
import json
import re
import time
from datetime import UTC, datetime
from time import tzset
from typing import Any

import orjson
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from jsonpointer import JsonPointer, JsonPointerException

from index.entry import Source
from streamer.records.decode import (
    DETAIL_CHARACTERS_MAX,
    DeadLetter,
    Decoder,
    Document,
    _parts,
    _resolve,
)
from streamer.records.names import ID_BYTES_MAX, bounded_id
from streamer.records.reason import Reason
from streamer.records.record import Record
from streamer.settings.decode import PRESETS
from streamer.settings.settings import Decode
from streamer.settings.types import CalledHtml, CalledPlain, PlainText
from tests.support.examples import examples

STAMP_MS = 1_600_000_000_123


def record(value: bytes | None, key: bytes | None = None) -> Record:
    return Record(Source("stream", 3), "documents", 41, key, value, STAMP_MS)


def decode(value: Any, key: bytes | None = None, **fields: Any) -> Document | DeadLetter:
    """Decode bytes as they are and anything else as JSON, by the settings named."""
    raw = value if isinstance(value, bytes) or value is None else orjson.dumps(value)
    (decoded,) = Decoder(Decode(**fields)).decode([record(raw, key)])
    return decoded


def document(value: Any, key: bytes | None = None, **fields: Any) -> Document:
    decoded = decode(value, key, **fields)
    assert isinstance(decoded, Document)
    return decoded


def dead_letter(value: Any, key: bytes | None = None, **fields: Any) -> DeadLetter:
    decoded = decode(value, key, **fields)
    assert isinstance(decoded, DeadLetter)
    return decoded


def test_a_plain_record_becomes_a_document() -> None:
    value = {"id": "d1", "title": "标题", "text": "正文", "more": 1}

    assert document(value) == Document("d1", "正文", "标题", STAMP_MS, None, ())


def test_documents_come_in_the_order_of_their_records() -> None:
    values = [b'{"text":"a"}', b"{", b'{"text":"b"}', None]

    decoded = Decoder(Decode()).decode([record(value) for value in values])

    assert [type(each) for each in decoded] == [Document, DeadLetter, Document, DeadLetter]
    assert Decoder(Decode()).decode([]) == []


def test_an_empty_text_is_a_document() -> None:
    assert document({"text": ""}).text == ""


def test_a_byte_order_mark_is_not_part_of_the_value() -> None:
    assert document(b'\xef\xbb\xbf{"text":"a"}').text == "a"
    assert document(b"\xef\xbb\xbfa", format="text").text == "a"


def test_a_surrogate_without_its_partner_becomes_the_replacement_character() -> None:
    assert document(rb'{"text":"cut \ud83d"}').text == "cut \ufffd"
    assert document(rb'{"text":"\uDE00 \ud83d\ude00 \ud83d\ud83d\ude00"}').text == "\ufffd 😀 \ufffd😀"
    assert document(rb'{"text":"\\ud83d \ud83d"}').text == "\\ud83d \ufffd"


def test_of_a_key_that_occurs_twice_the_last_value_counts() -> None:
    assert document(b'{"text":"a","text":"b"}').text == "b"


# --- dead letters: an example of every reason ---


def test_no_value_is_a_tombstone() -> None:
    assert dead_letter(None, b"k") == DeadLetter(Reason.TOMBSTONE, "the record has no value", "k")
    assert dead_letter(None, format="text").reason is Reason.TOMBSTONE


def test_a_value_over_the_limit_is_too_large_and_one_at_the_limit_is_not() -> None:
    value = b'{"text":"abc"}'

    assert isinstance(decode(value, value_bytes_max=len(value)), Document)
    letter = dead_letter(value, value_bytes_max=len(value) - 1)
    assert letter.reason is Reason.TOO_LARGE
    assert letter.detail == "the value has 14 bytes, decode.value_bytes_max is 13"


@pytest.mark.parametrize("value", [b'{"text":"\xff"}', b"\xc0\x80", b'{"text":"\xed\xa0\x80"}', b'\xff\xfe{\x00"\x00'])
@pytest.mark.parametrize("form", ["json", "text"])
def test_bytes_that_are_not_utf_8_are_told_from_bad_json(value: bytes, form: str) -> None:
    assert dead_letter(value, format=form).reason is Reason.NOT_UTF_8


def test_the_first_wrong_byte_is_named() -> None:
    assert dead_letter(b'{"text":"\xff"}').detail == "byte 9 of 12 is not UTF-8: invalid start byte"


@pytest.mark.parametrize(
    "value", [b"", b" ", b"{", b"{]", b'{"text":nan}', b"{'text':'a'}", b'{"text":"a"}x', b'{"text":"\x01"}', b"\x00"]
)
def test_what_is_not_json_is_a_dead_letter_with_the_parsers_complaint(value: bytes) -> None:
    letter = dead_letter(value)

    assert letter.reason is Reason.NOT_JSON
    assert letter.detail


def test_nesting_beyond_the_parsers_limit_has_its_own_reason() -> None:
    """Pins the parser's limit, and the words of its error that tell the reason."""

    def nested(depth: int) -> bytes:
        return b'{"text":"a","deep":' + b"[" * depth + b"]" * depth + b"}"

    assert document(nested(1023)).text == "a"
    assert dead_letter(nested(1024)).reason is Reason.NESTED_TOO_DEEP
    assert dead_letter(b"[" * 100_000).reason is Reason.NESTED_TOO_DEEP
    assert dead_letter(b'{"a":' * 100_000).reason is Reason.NESTED_TOO_DEEP


@pytest.mark.parametrize(
    ("value", "detail"),
    [
        ({}, "there is no text at /text; the object is empty"),
        ({"body": "a", "url": "b"}, "there is no text at /text (or it is null or NaN); the keys are: body, url"),
        ({"text": None}, "there is no text at /text (or it is null or NaN); the keys are: text"),
        ([], "there is no text at /text: the value is an array, not an object"),
        (3, "there is no text at /text: the value is a number, not an object"),
        ("a", "there is no text at /text: the value is a string, not an object"),
        (b"null", "there is no text at /text: the value is null, not an object"),
    ],
)
def test_a_value_without_text_says_where_it_was_looked_for(value: Any, detail: str) -> None:
    assert dead_letter(value) == DeadLetter(Reason.NO_TEXT, detail, None)


@pytest.mark.parametrize(
    ("text", "kind"),
    [(3, "a number"), (0.5, "a number"), (True, "true or false"), (["a"], "an array"), ({"a": "b"}, "an object")],
)
def test_a_text_that_is_no_string_is_a_dead_letter(text: Any, kind: str) -> None:
    letter = dead_letter({"text": text, "id": "d1"})

    assert letter == DeadLetter(Reason.TEXT_NOT_STRING, f"/text is {kind}, not a string", "d1")


def test_a_dead_letter_keeps_the_id_that_could_be_read() -> None:
    assert dead_letter({"id": "d1"}, b"k").id == "d1"
    assert dead_letter({}, b"k").id == "k"
    assert dead_letter(b"{", b"k").id == "k"
    assert dead_letter(b"{", b"\xff").id is None


def test_the_detail_of_a_dead_letter_is_bounded_and_holds_no_text() -> None:
    value = {"secret " + "k" * 1000 + str(number): "content" * 1000 for number in range(1000)}
    detail = dead_letter(value).detail

    assert len(detail) == DETAIL_CHARACTERS_MAX
    assert "content" not in detail


# --- the id ---


@pytest.mark.parametrize(
    ("given_id", "key", "expected"),
    [
        ("d1", b"k", "d1"),
        (17, b"k", "17"),
        (-2.5, b"k", "-2.5"),
        (2**64 - 1, b"k", "18446744073709551615"),
        (None, b"k", "k"),
        ("", b"k", "k"),
        (True, b"k", "k"),
        (["d1"], b"k", "k"),
        ({}, b"k", "k"),
        (None, "键".encode(), "键"),
        (None, b"\xff", "documents/3/41"),
        (None, b"", "documents/3/41"),
        (None, None, "documents/3/41"),
    ],
)
def test_the_id_is_the_field_else_the_key_else_the_position(given_id: Any, key: bytes | None, expected: str) -> None:
    assert document({"id": given_id, "text": "a"}, key).id == expected


@pytest.mark.parametrize("form", ["%s", "[%s]", '["a", %s]'])
def test_a_whole_number_of_any_size_is_a_keyword_or_an_odd_time_with_all_its_digits(form: str) -> None:
    digits = "99999999999999999999"
    value = b'{"text":"a","tags":%b,"time":{"at":%b}}' % ((form % digits).encode(), (form % digits).encode())
    found = document(value, metadata=["/tags"], time="/time")
    assert found.metadata[-1] == digits
    assert digits in found.odd_time


@pytest.mark.parametrize("digits", ["123456789012345678901", str(2**128 - 1), str(-(2**70)), "9" * 400, "9" * 4_300])
def test_a_whole_number_of_any_size_is_an_id_with_all_its_digits(digits: str) -> None:
    """Two ids that differ in the last digit are two pages; an update of one is no update of the other."""
    for preset, form in (("plain", b'{"id":%b,"text":"a","more":"\\ud83d"}'), ("nutch", b'{"id":[%b],"content":"a"}')):
        found = document(form % digits.encode(), b"k", preset=preset)
        assert (found.id, found.named) == (bounded_id(digits), True)


@pytest.mark.parametrize(
    "number", ["1e400", "-1e400", "NaN", "Infinity", "-Infinity", "1e22", "9" * 5_000, "9" * 5_000 + ".5"]
)
def test_a_number_that_cannot_be_kept_is_no_id(number: str) -> None:
    assert document(b'{"id":%b,"text":""}' % number.encode(), b"k").id == "k"


@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "-Infinity", "1e400", "-1e400", "9" * 400, "9" * 100_000, "[NaN, 1e999]"]
)
def test_a_number_that_json_does_not_have_costs_no_page(number: str) -> None:
    """Python writes NaN by default, and tables mark a missing value by it."""
    value = b'{"text":"a","id":"1","score":%b,"deep":{"x":[%b]}}' % (number.encode(), number.encode())
    assert document(value).text == "a"
    assert document(value.replace(b'"a"', rb'"cut \ud83d"')).text == "cut \ufffd"


def test_a_text_that_is_nan_is_none_and_another_spelling_of_nan_is_explained() -> None:
    letter = dead_letter(b'{"text":NaN,"id":"1"}')
    assert (letter.reason, "NaN" in letter.detail, letter.id) == (Reason.NO_TEXT, True, "1")
    for value in (b'{"text":"a","score":nan}', b'{"text":"a","score":-NaN}', b'{"text":"a","score":inf}'):
        letter = dead_letter(value)
        assert (letter.reason, "NaN, Infinity and -Infinity" in letter.detail) == (Reason.NOT_JSON, True)
    assert "NaN" not in dead_letter(b'{"text":"nan"').detail


def test_nesting_in_a_value_with_nan_has_its_own_reason_too() -> None:
    assert dead_letter(b'{"text":"a","x":NaN,"deep":' + b"[" * 100_000).reason is Reason.NESTED_TOO_DEEP


def test_values_that_another_parser_reads_take_linear_time() -> None:
    for piece in (b"NaN,", b"9", b"[", b'"\\ud83d",', b"1e999,", b"-Infinity,", b'{"a":'):
        took = []
        for count in (50_000, 400_000):
            value = b'{"text":"a","id":99999999999999999999,"x":[' + piece * count + b"0]}"
            begin = time.process_time()
            decode(value)
            took.append(time.process_time() - begin)
        assert took[1] < 40 * took[0] + 0.2, piece


def test_a_long_id_is_cut_and_stays_unlike_other_ids() -> None:
    fits = "网" * (ID_BYTES_MAX // 3)
    ids = [document({"id": fits + end, "text": ""}).id for end in ("", "ab", "abc", "abd")]

    assert ids[0] == fits
    assert ids[1] == fits + "ab"
    assert len(set(ids)) == 4
    for cut in ids[2:]:
        assert len(cut.encode()) <= ID_BYTES_MAX
        assert re.fullmatch(r"网+#[0-9a-f]{32}", cut)


# --- optional fields ---


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (1_700_000_000, "2023-11-14T22:13:20+00:00"),
        (1_700_000_000.25, "2023-11-14T22:13:20.250+00:00"),
        (1_700_000_000_250, "2023-11-14T22:13:20.250+00:00"),
        ("1700000000", "2023-11-14T22:13:20+00:00"),
        ("1700000000250", "2023-11-14T22:13:20.250+00:00"),
        (0, "1970-01-01T00:00:00+00:00"),
        (-1, "1969-12-31T23:59:59+00:00"),
        ("2023-11-14", "2023-11-14T00:00:00+00:00"),
        ("20231114", "2023-11-14T00:00:00+00:00"),
        ("2023-11-14T22:13:20.250607", "2023-11-14T22:13:20.251+00:00"),
        ("2023-11-14 22:13:20Z", "2023-11-14T22:13:20+00:00"),
        (" 2023-11-15T06:13:20+08:00 ", "2023-11-14T22:13:20+00:00"),
        ("Tue Nov 14 22:13:20 UTC 2023", "2023-11-14T22:13:20+00:00"),
        ("Tue, 14 Nov 2023 22:13:20 GMT", "2023-11-14T22:13:20+00:00"),
        ("Wed, 15 Nov 2023 06:13:20 +0800", "2023-11-14T22:13:20+00:00"),
    ],
)
def test_a_time_is_read_in_the_forms_that_crawlers_write(time: Any, expected: str) -> None:
    moment = datetime.fromtimestamp(document({"text": "", "t": time}, time="/t").time_ms / 1000, UTC)

    assert moment == datetime.fromisoformat(expected)


def test_a_time_without_a_zone_is_utc_wherever_the_service_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    tzset()
    try:
        found = [
            document({"text": "", "t": text}, time="/t").time_ms
            for text in ("2023-11-14T22:13:20", "Tue Nov 14 22:13:20 UTC 2023")
        ]
    finally:
        monkeypatch.undo()
        tzset()

    assert found == [1_700_000_000_000] * 2


@pytest.mark.parametrize(
    "time",
    [
        None,
        "",
        "yesterday",
        True,
        [],
        {},
        1e300,
        -(10**18),
        "9" * 40,
        "2023-13-01",
        "0001-01-01T00:00:00+99:00",
        "Tue Nov 14 22:13:20 CST 2023",
        "Tue Xxx 14 22:13:20 UTC 2023",
        "Tue Nov 99 99:99:99 UTC 9999",
        "2023-11-14" * 1000,
    ],
)
def test_a_time_that_cannot_be_read_costs_no_document(time: Any) -> None:
    assert document({"text": "a", "t": time}, time="/t").time_ms == STAMP_MS


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("https://User:pw@News.Example.org:8080/a?b#c", "news.example.org"),
        ("//example.org/a", "example.org"),
        ("http://[2001:db8::1]/a", "2001:db8::1"),
        ("Example.org", "example.org"),
        ("Example.org/a/b?c", "example.org"),
        ("/a/b", None),
        (" 例子.中国 ", "例子.中国"),
        ("http://[broken/", None),
        ("http:///nothing", None),
        ("", None),
        (" ", None),
        (3, None),
        (None, None),
        (["example.org"], None),
        ("https://example.org/" + "a" * 10_000, "example.org"),
        ("https://example.org?" + "a" * 10_000, "example.org"),
        ("https://" + "a" * 10_000 + ".example.org/", None),
        ("http://a" + "\u0301" * 500_000 + "\u0316" * 500_000 + "/", None),
    ],
)
def test_a_host_is_taken_from_a_url_or_as_it_is(host: Any, expected: str | None) -> None:
    assert document({"text": "", "h": host}, host="/h").host == expected


@pytest.mark.parametrize(
    ("preset", "value", "expected"),
    [
        ("plain", {"host": "A.example", "url": "https://b.example/1"}, "a.example"),
        ("plain", {"url": "https://b.example/1"}, "b.example"),
        ("plain", {"host": 7, "url": "https://b.example/1"}, "b.example"),
        ("plain", {}, None),
        ("scrapy-cluster", {"response_url": "https://a.example/1", "url": "https://b.example/1"}, "a.example"),
        ("scrapy-cluster", {"url": "https://b.example/1"}, "b.example"),
        ("nutch", {"host": ["a.example"], "url": ["https://b.example/1"]}, "a.example"),
        ("nutch", {"host": [], "url": ["https://b.example/1"]}, "b.example"),
    ],
)
def test_a_preset_takes_the_host_and_where_there_is_none_that_of_the_url(
    preset: str, value: dict[str, Any], expected: str | None
) -> None:
    assert document({"text": "", "body": "", "content": ""} | value, preset=preset).host == expected


def test_a_pointer_to_the_host_stands_alone() -> None:
    assert document({"text": "", "url": "https://b.example/1"}, host="/site").host is None


def test_metadata_is_gathered_from_strings_numbers_and_lists_of_them() -> None:
    value = {"text": "", "tags": ["a", 1, None, "", {"x": 1}, True], "section": "news", "none": None}

    found = document(value, metadata=["/section", "/tags", "/none", "/absent"])

    assert found.metadata == ("news", "a", "1")


def test_a_title_that_is_no_string_is_none() -> None:
    assert document({"text": "", "title": 3}).title == ""


def test_pointers_reach_into_objects_and_arrays() -> None:
    value = {"a": [{"b/c": "deep"}], "m~n": "tilde", "": "empty"}

    assert document(value, text="/a/0/b~1c", title="/m~0n", id="/").text == "deep"
    assert document(value, text="/a/0/b~1c", title="/m~0n", id="/").title == "tilde"
    assert document(value, text="/a/0/b~1c", id="/").id == "empty"
    assert document("only a string", text="").text == "only a string"


@pytest.mark.parametrize("pointer", ["/a/00", "/a/-", "/a/-1", "/a/٠", "/a/1", "/a/99999999999", "/a/0/b", "/b/0"])
def test_a_pointer_that_leads_nowhere_finds_nothing(pointer: str) -> None:
    assert dead_letter({"a": ["x"], "b": "y"}, text=pointer).reason is Reason.NO_TEXT


# --- presets ---


def test_the_values_of_scrapy_cluster_are_understood() -> None:
    value = {
        "appid": "app",
        "crawlid": "c1",
        "url": "https://Example.org/old",
        "response_url": "https://Example.org/new",
        "status_code": 200,
        "status_msg": "OK",
        "body": "<html>网页</html>",
        "links": [],
        "attrs": {},
        "timestamp": "2023-11-14T22:13:20.250607",
    }

    assert document(value, preset="scrapy-cluster") == Document(
        "https://Example.org/old", "<html>网页</html>", "", 1_700_000_000_251, "example.org", ()
    )
    assert dead_letter(b"json failed to parse", preset="scrapy-cluster").reason is Reason.NOT_JSON


def test_the_values_of_nutch_are_understood() -> None:
    value = {
        "id": ["https://example.org/a"],
        "url": ["https://example.org/a"],
        "host": ["example.org"],
        "title": ["标题"],
        "content": ["正文"],
        "tstamp": ["Tue Nov 14 22:13:20 UTC 2023"],
        "boost": ["0.0"],
    }

    assert document(value, preset="nutch") == Document(
        "https://example.org/a", "正文", "标题", 1_700_000_000_000, "example.org", ()
    )


def test_of_several_nutch_values_text_is_joined_and_other_fields_take_the_first() -> None:
    value = {"content": ["a", "b"], "title": ["t", "u"], "id": ["1", "2"], "host": ["x", "y"], "tstamp": []}

    assert document(value, preset="nutch") == Document("1", "a\nb", "t\nu", STAMP_MS, "x", ())


def test_a_page_of_an_archive_has_the_time_of_its_crawl() -> None:
    value = {
        "id": "<urn:uuid:1>",
        "url": "https://a.example/1",
        "time": "2026-11-22T10:00:00Z",
        "type": "response",
        "content_type": "text/html",
        "text": "<p>news</p>",
    }
    assert document(value, preset="warc") == Document("<urn:uuid:1>", "<p>news</p>", "", 1795341600000, "a.example", ())
    assert dead_letter({"id": "<urn:uuid:1>", "no_text": "damaged"}, preset="warc").reason is Reason.NO_TEXT


def test_nutch_arrays_without_text_are_dead_letters() -> None:
    assert dead_letter({"content": []}, preset="nutch").reason is Reason.NO_TEXT
    assert dead_letter({"content": ["a", 1]}, preset="nutch").reason is Reason.TEXT_NOT_STRING
    assert document({"content": "not an array"}, preset="nutch").text == "not an array"


def test_a_pointer_of_ones_own_wins_over_the_presets() -> None:
    value = {"body": "a", "url": "u", "extracted": "b"}

    found = document(value, preset="scrapy-cluster", text="/extracted")

    assert (found.text, found.id) == ("b", "u")


def test_every_preset_can_be_chosen() -> None:
    assert set(PRESETS) == set(Decode.model_fields["preset"].annotation.__args__)  # type: ignore[union-attr]


def test_in_text_format_the_value_is_the_text() -> None:
    assert document('{"text": "不解析"}'.encode(), b"k", format="text") == Document(
        "k", '{"text": "不解析"}', "", STAMP_MS, None, ()
    )
    assert document(b"", format="text").text == ""


# --- properties ---

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["text", "id", "title", "time", "host", "tags", "a", "0"]), inner, max_size=6)
    ),
    max_leaves=12,
)
EVERYTHING: list[dict[str, Any]] = [
    {},
    {"preset": "scrapy-cluster"},
    {"preset": "nutch"},
    {"preset": "nutch", "text": "/text", "time": "/time", "host": "/host", "metadata": ["/tags", "/a/0", ""]},
    {"time": "/time", "host": "/host", "metadata": ["/tags", "/a"]},
    {"text": ""},
    {"format": "text"},
]


def test_a_document_of_more_characters_than_allowed_is_too_large_and_one_at_the_limit_is_not() -> None:
    decoded = decode({"id": "long", "title": "äbc", "text": "d" * 8}, characters_max=10)
    assert isinstance(decoded, DeadLetter)
    assert (decoded.reason, decoded.id) == (Reason.TOO_LARGE, "long")
    assert decoded.detail == "title and text have 11 characters, decode.characters_max is 10"
    assert isinstance(decode({"title": "äbc", "text": "d" * 7}, characters_max=10), Document)
    assert isinstance(decode(b"d" * 11, format="text", characters_max=10), DeadLetter)


@examples(300)
@given(raw=st.binary(max_size=60), key=st.none() | st.binary(max_size=8), choice=st.sampled_from(EVERYTHING))
def test_no_bytes_make_decode_raise(raw: bytes, key: bytes | None, choice: dict[str, Any]) -> None:
    decoded = decode(raw, key, **choice)

    try:
        raw.decode()
    except UnicodeDecodeError:
        assert isinstance(decoded, DeadLetter)
        assert decoded.reason is Reason.NOT_UTF_8
    else:
        assert isinstance(decoded, Document) or decoded.reason is not Reason.NOT_UTF_8


@examples(400)
@given(tree=JSON, choice=st.sampled_from(EVERYTHING))
def test_no_json_makes_decode_raise_and_what_it_gives_can_be_written(tree: Any, choice: dict[str, Any]) -> None:
    decoded = decode(tree, b"k", **choice)

    if isinstance(decoded, Document):
        assert decoded.id
        assert len(decoded.id.encode()) <= ID_BYTES_MAX
        assert orjson.loads(orjson.dumps([decoded.text, decoded.title, decoded.metadata])) == [
            decoded.text,
            decoded.title,
            list(decoded.metadata),
        ]
        assert -(2**63) <= decoded.time_ms < 2**63
        assert "" not in decoded.metadata
    else:
        assert len(decoded.detail) <= DETAIL_CHARACTERS_MAX


@examples(200)
@given(value=st.from_regex(r"[A-Z][a-z]{2},? [A-Za-z0-9 :+-]{10,30}|[0-9TZ:. +-]{4,30}", fullmatch=True))
def test_no_time_text_makes_decode_raise_or_gives_a_time_that_no_calendar_has(value: str) -> None:
    years = [datetime(year, *day, tzinfo=UTC).timestamp() * 1000 for year, day in ((1, (1, 1)), (9999, (12, 31)))]
    # A zone takes the first and the last day of all beyond them, by a day at most.
    assert years[0] - 86_400_000 <= document({"text": "", "t": value}, time="/t").time_ms < years[1] + 2 * 86_400_000


@examples(400)
@given(
    tree=JSON, parts=st.lists(st.sampled_from(["text", "a", "tags", "0", "1", "00", "-", "-1", "", "٣"]), max_size=3)
)
def test_pointers_resolve_as_the_library_resolves_them(tree: Any, parts: list[str]) -> None:
    pointer = "".join("/" + part for part in parts)
    try:
        expected = JsonPointer(pointer).resolve(tree)
    except JsonPointerException:
        expected = None
    if type(expected).__name__ == "EndOfList":
        expected = None

    assert _resolve(tree, _parts(pointer)) == expected


def test_values_in_another_charset_are_read_by_its_name() -> None:
    value = '{"text": "渔民们把网撒向海面", "id": "1"}'
    for charset in ("gb18030", "gbk", "big5", "shift_jis"):
        letter = '{"text": "船出海"}' if charset in ("big5", "shift_jis") else value
        decoded = document(letter.encode(charset), charset=charset)
        assert decoded.text == orjson.loads(letter)["text"]
    assert document("渔民们".encode("gb18030"), charset="gb18030", format="text").text == "渔民们"
    letter = dead_letter("渔民们".encode(), charset="gb18030", format="text")
    assert letter.reason is Reason.NOT_UTF_8
    assert "gb18030 (decode.charset)" in letter.detail


def test_charsets_of_other_scripts_are_recognised_and_latin_ones_are_not() -> None:
    for value in ('{"text": "渔民们把网撒向海面"}', "渔民们把网撒向海面"):
        assert "decode.charset = gb18030" in dead_letter(value.encode("gbk"), format="text").detail
    for text, charset, script in (
        ("漁民們每天清晨出海，中午回到港口", "big5", "Chinese"),
        ("渡し船は毎朝九時に港を出発します", "shift_jis", "Japanese"),
        ("渡し船は毎朝九時に港を出発します", "euc_jp", "Japanese"),
        ("여객선은 매일 아침 항구를 출발합니다", "euc_kr", "Korean"),
    ):
        hint = f"it reads as {script} in decode.charset = {charset}"
        assert hint in dead_letter(text.encode(charset), format="text").detail
    assert "decode.charset" not in dead_letter("Crème brûlée à la française".encode("latin-1"), format="text").detail


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (b"WARC/1.0\r\nWARC-Type: response\r\n", "WARC"),
        (b"PAR1\x15\x04\x15", "Parquet"),
        (b"Obj\x01\x04\x16avro.schema", "Avro file"),
        (gzip.compress(b'{"text": "a"}', mtime=0), "gzip"),
        (zstandard.compress(b'{"text": "a"}'), "Zstandard"),
        (b"<!doctype html><p>text", "page or XML: decode.format = text"),
    ],
)
def test_a_value_in_a_known_format_is_named_by_its_first_bytes(value: bytes, name: str) -> None:
    assert name in dead_letter(value).detail


def test_a_page_of_plain_text_is_known_by_its_type_and_damage_by_its_line() -> None:
    for content_type, is_plain in (
        ("text/plain; charset=gbk", True),
        ("TEXT/PLAIN", True),
        ("text/html", False),
        (5, False),
    ):
        value = orjson.dumps({"id": "a", "content_type": content_type, "text": "x<y"})
        assert isinstance(document(value, preset="warc").text, PlainText) == is_plain
        assert not isinstance(document(value).text, PlainText)
        assert isinstance(document(value).text, CalledPlain) == is_plain
    for content_type, value_type in (
        ("text/html; charset=gbk", CalledHtml),
        (" APPLICATION/XHTML+XML", CalledHtml),
        (["text/html"], CalledHtml),
        ([], str),
        ({"a": 1}, str),
        ("application/rss+xml", str),
        (None, str),
    ):
        value = orjson.dumps({"id": "a", "content_type": content_type, "text": "x<y"})
        assert type(document(value).text) is type(document(value, preset="warc").text) is value_type
    crawled = {"url": "https://a.example", "body": "x<y", "response_headers": {"Content-Type": ["text/html"]}}
    assert type(document(orjson.dumps(crawled), preset="scrapy-cluster").text) is CalledHtml
    assert type(document(b'{"type": ["text/html"], "content": ["x<y"]}', preset="nutch").text) is str
    letter = dead_letter(b'{"unreadable":"WARC record 5, at byte 7 of what a.warc holds: it does not say its length"}')
    assert letter.reason is Reason.UNREADABLE
    assert letter.detail.startswith("WARC record 5, at byte 7")
    assert dead_letter(b'{"unreadable":"x","id":"a"}').reason is Reason.NO_TEXT


@pytest.mark.parametrize(
    ("value", "scope"),
    [
        ({"tenant": "tenant-a"}, "tenant-a"),
        ({"tenant": "eu/west~1"}, "eu~1west~01"),
        ({"tenant": 7}, "7"),
        ({"tenant": "7"}, "7"),
        ({"tenant": 12345678901234567890123}, "12345678901234567890123"),
        ({"tenant": 1.5}, "1.5"),
        ({}, ""),
        *(({"tenant": each}, "") for each in ("", None, True, ["tenant-a"], {"id": "tenant-a"}, 1e300)),
    ],
)
def test_a_scope_is_a_text_or_a_number_and_stands_before_id_and_host(value: dict[str, Any], scope: str) -> None:
    whole = {"id": "42", "host": "Host.example", "text": "t", **value}
    found = document(json.dumps(whole).encode(), scope="/tenant")
    assert (found.scope, found.id, found.host) == (scope, f"{scope}/42", f"{scope}/host.example")


def test_ids_from_urls_and_keys_have_their_scope_and_positions_have_none() -> None:
    url = "https://Host.example/a"
    found = document({"id": url, "text": "t", "tenant": "a"}, scope="/tenant")
    assert (found.id, found.host) == (f"a/{url}", "a/host.example")
    for key, named in ((b"key", "a/key"), (None, "documents/3/41")):
        found = document({"text": "t", "tenant": "a"}, key, scope="/tenant")
        assert (found.id, found.host, found.scope) == (named, None, "a")


def test_a_dead_letter_has_its_scope_as_far_as_it_can_be_read() -> None:
    letter = dead_letter({"id": "42", "tenant": "a"}, scope="/tenant")
    assert letter.id == "a/42"
    letter = dead_letter(b"{", b"42", scope="/tenant")
    assert letter.id == "42"


def test_the_first_item_of_a_list_is_the_scope_where_every_field_is_a_list() -> None:
    found = document({"content": ["t"], "id": ["42"], "tenant": ["a", "b"]}, preset="nutch", scope="/tenant")
    assert found.id == "a/42"


def test_without_a_scope_names_are_as_they_were() -> None:
    found = document({"id": "a/42", "host": "a.example", "text": "t", "scope": "b"})
    assert (found.scope, found.id, found.host) == (None, "a/42", "a.example")
