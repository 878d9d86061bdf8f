"""A document has one answer, whichever way it comes: a file or a topic, POST /v1/check, the library, an item of Scrapy."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from streamer.ask.answers import Answers
from streamer.ask.filter import Filter
from streamer.ask.scrapy import _json_of
from streamer.explain.why import explain
from streamer.index_admin.tools import seek_id
from streamer.records.names import ID_BYTES_MAX
from streamer.settings.settings import Settings, load
from tests.support.command_line import run

TEXT = "The ferry to the islands leaves the harbour every morning at seven, and comes back in the evening. " * 3
HALF = "\ud83d"


def answers(opened: Filter, value: bytes, settings: Settings) -> dict[str, Mapping[str, Any]]:
    """The answer to a record's value, by each way."""
    fields = json.loads(value)
    body = b'{"documents": [' + value + b"]}"
    _, posted = Answers(opened, settings).answer("check", body)
    (by_value,), (by_fields,), (by_item,) = (
        opened.check([each]) for each in (value, fields, _json_of(fields, bytes_as_text=True))
    )
    (by_api,) = orjson.loads(posted)["answers"]
    return {
        "a file or a topic": asked(by_value),
        "the library": asked(by_fields),
        "an item": asked(by_item),
        "the API": {name: by_api[name] for name in asked(by_value)},
    }


def asked(answer: Any) -> Mapping[str, Any]:
    return {name: getattr(answer, name) for name in ("id", "verdict", "reason", "detail", "original_id", "similarity")}


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ('"score": NaN', "duplicate"),
        ('"score": [Infinity, {"a": -Infinity}]', "duplicate"),
        ('"score": 1e400', "duplicate"),
        ('"score": ' + "9" * 400, "duplicate"),
        ('"author": "\\ud83d"', "duplicate"),
        ('"title": "\\ude00 half"', "duplicate"),
        ('"author": "\\ud83d", "score": NaN', "duplicate"),
        ('"id": 340282366920938463463374607431768211455', "duplicate"),
        ('"id": 340282366920938463463374607431768211455, "a": "\\ud83d", "b": NaN', "duplicate"),
        ('"id": NaN', "duplicate"),
        ('"id": 1e400', "duplicate"),
        ('"id": 12345678901234567890.5', "duplicate"),
        ('"text": NaN', "dead-letter"),
        ('"text": Infinity', "dead-letter"),
        ('"text": 340282366920938463463374607431768211455', "dead-letter"),
        ('"text": "\\ud83d"', "undecidable"),
        ('"time": 1e400, "url": NaN', "duplicate"),
    ],
)
def test_every_way_gives_the_same_answer(tmp_path: Path, fields: str, verdict: str) -> None:
    settings = load(overrides=["decode.time=/time"])
    with Filter(tmp_path, settings) as opened:
        opened.admit([{"text": TEXT, "id": "first"}])
        by_way = answers(opened, b'{"text": %b, %b}' % (orjson.dumps(TEXT), fields.encode()), settings)
        first = by_way["a file or a topic"]
        assert by_way == dict.fromkeys(by_way, first)
        assert (first["verdict"], first["id"]) == (verdict, first["id"])
        if "340282" in fields and verdict == "duplicate":
            assert first["id"] == str(2**128 - 1)


def test_bytes_that_are_no_utf_8_are_refused_by_every_way(tmp_path: Path) -> None:
    with Filter(tmp_path) as opened:
        for value in (b'{"text": "\xed\xa0\xbd"}', b'{"text": "\xff"}', '{"text": "a"}'.encode("utf-16")):
            assert opened.check([value])[0].verdict == "dead-letter"
            status, _ = Answers(opened, Settings()).answer("check", b'{"documents": [' + value + b"]}")
            assert status == 400


def test_a_text_with_half_an_emoji_is_no_error_where_values_are_texts(tmp_path: Path) -> None:
    settings = load(overrides=["decode.format=text"])
    with Filter(tmp_path, settings) as opened:
        status, body = Answers(opened, settings).answer("check", b'{"documents": ["half \\ud83d"]}')
        assert (status, orjson.loads(body)["answers"][0]["verdict"]) == (200, "unique")


def test_an_item_for_kafka_is_utf_8_with_half_an_emoji_escaped() -> None:
    value = _json_of({"text": "中文 " + HALF}, bytes_as_text=False)
    assert json.loads(value.decode())["text"] == "中文 " + HALF
    assert "中文" in value.decode()


LONG_IDS: Sequence[str] = ("https://a.example/" + "a" * 3_000, "网" * 1_000, "9" * 4_000)


@pytest.mark.parametrize("name", LONG_IDS)
def test_an_id_of_any_length_is_found_by_its_own_name(tmp_path: Path, name: str) -> None:
    assert len(name.encode()) > ID_BYTES_MAX
    settings = Settings()
    with Filter(tmp_path / "index", settings, source="known") as opened:
        (answer,) = opened.admit([{"text": TEXT, "id": name}])
        for asked_for in (name, answer.id):
            assert asked_for is not None
            assert len(explain(opened.index, settings, asked_for).explanations) == 1
            assert len(seek_id(opened.index, asked_for)) == 1
            status, body = Answers(opened, settings).answer("document", asked_for.encode())
            assert (status, len(orjson.loads(body)["decisions"])) == (200, 1)
    where = ("--set", f"index.directory={tmp_path / 'index'}")
    assert run(*where, "why", "--no-texts", name).code == 0
    assert run(*where, "index", "forget", name).code == 0
