"""A question is answered in JSON, or refused by the name of what is wrong with it."""

from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path

import orjson
import pytest

from index import Position
from streamer.ask.answers import PAIRS_MAX, Answers, Refused, parse_documents
from streamer.ask.filter import Filter
from streamer.records.record import Record
from streamer.settings.settings import Settings, load
from streamer.transports.output_log import RecordsByPosition

TEXT = "In the harbour of the small town the fishermen mended their nets and spoke of the storm of that night. " * 4


@pytest.fixture
def known(tmp_path: Path) -> Iterator[Filter]:
    with Filter(tmp_path, source="known") as opened:
        yield opened


def told(known: Filter, question: str, asked: bytes, settings: Settings | None = None) -> tuple[int, dict[str, object]]:
    status, body = Answers(known, settings or Settings()).answer(question, asked)
    return status.value, orjson.loads(body)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", ""),
        (b"{", ""),
        (b"[]", "documents"),
        (b"null", "documents"),
        (b"{}", "documents"),
        (b'{"documents": {}}', "documents"),
        (b'{"documents": []}', "documents"),
        (b'{"documents": [{}, null]}', "documents[1]"),
        (b'{"documents": [{}], "limit": 3}', "limit"),
    ],
)
def test_a_body_that_is_no_question_is_refused_by_name(known: Filter, body: bytes, field: str) -> None:
    status, answer = told(known, "check", body)
    assert status == 400
    assert answer["error"]["field"] == field  # type: ignore[index]


def test_half_a_surrogate_pair_in_one_document_costs_no_other_its_answer(known: Filter) -> None:
    status, answer = told(known, "check", b'{"documents": [{"text": "half \\ud800"}, {"text": "whole"}]}')
    assert status == 200
    assert [each["verdict"] for each in answer["answers"]] == ["unique", "unique"]  # type: ignore[attr-defined]
    assert told(known, "check", b"[" * 100_000)[0] == 400


def test_too_many_documents_are_refused_with_the_setting() -> None:
    body = orjson.dumps({"documents": [{}] * 3})
    assert len(parse_documents(body, 3)) == 3
    with pytest.raises(Refused, match=r"has 3 documents, ask\.documents_max is 2") as refused:
        parse_documents(body, 2)
    assert refused.value.reply.status is HTTPStatus.REQUEST_ENTITY_TOO_LARGE


def test_stories_are_those_of_a_scope_and_of_a_host_within_it(tmp_path: Path) -> None:
    scoped = load(None, ["decode.scope=/tenant", "topics.stories=stories"], {})
    with Filter(tmp_path, scoped) as opened:
        for tenant, host in (("a", "x"), ("b", "x"), ("a", "y"), ("eu/west", "x"), ("eu/west", "x")):
            opened.admit([{"id": host, "text": TEXT, "tenant": tenant, "url": f"https://{host}.example/"}])

        def roots(**asked: str) -> list[str]:
            status, answer = told(opened, "stories", orjson.dumps({"path": "", **asked}), scoped)
            assert status == 200
            return [each["id"] for each in answer["stories"]]  # type: ignore[attr-defined]

        assert roots() == ["eu~1west/x", "a/x"]
        assert roots(scope="a") == roots(scope="a", path="https://Y.example/1") == ["a/x"]
        assert roots(scope="eu/west") == roots(path="eu~1west/x.example") == ["eu~1west/x"]
        assert roots(scope="b") == roots(scope="") == roots(scope="eu/west", path="y.example") == []


def test_a_scope_is_refused_where_documents_have_none(known: Filter) -> None:
    status, answer = told(known, "stories", b'{"path": "", "scope": "a"}')
    assert (status, answer) == (
        400,
        {"error": {"field": "scope", "message": "documents have no scopes: set decode.scope as for the service"}},
    )


def test_where_the_format_is_text_a_document_is_a_string(tmp_path: Path) -> None:
    settings = load(None, ["decode.format=text"], {})
    with Filter(tmp_path, settings) as opened:
        opened.admit([TEXT.encode()])
        status, answer = told(opened, "check", orjson.dumps({"documents": [TEXT]}), settings)
    assert (status, answer["answers"][0]["verdict"]) == (200, "duplicate")  # type: ignore[index]


def test_a_known_id_has_its_decisions_newest_first_and_an_unknown_one_is_not_found(known: Filter) -> None:
    known.admit([{"id": "é/1", "text": TEXT}, {"id": "é/1", "text": TEXT}])
    status, answer = told(known, "document", "é/1".encode())
    assert status == 200
    first, second = answer["decisions"]  # type: ignore[misc]
    assert (first["verdict"], first["position"], first["original"]["id"]) == ("duplicate", "filter:known/0/1", "é/1")
    assert (second["verdict"], second["reason"], second["original"]) == ("unique", "no-match", None)
    assert told(known, "document", b"filter:known/0/1")[1]["decisions"] == [first]
    status, answer = told(known, "document", b"none")
    assert (status, answer["error"]["field"]) == (404, "id")  # type: ignore[index]
    assert "nothing is known of 'none'" in answer["error"]["message"]  # type: ignore[index]


def test_words_are_told_only_where_there_is_a_reader_of_records(known: Filter) -> None:
    documents = [{"id": "a", "text": TEXT}, {"id": "b", "text": TEXT + "Nobody drowned."}]
    known.admit(documents)
    assert "texts" not in told(known, "document", b"b")[1]["decisions"][0]  # type: ignore[index]

    def records_at(positions: Sequence[Position], _names: Mapping[str, str]) -> RecordsByPosition:
        return {
            at: Record(at.source, "known", at.offset, None, orjson.dumps(documents[at.offset]), 0) for at in positions
        }

    status, body = Answers(known, Settings(), records_at).answer("document", b"b")
    texts = orjson.loads(body)["decisions"][0]["texts"]
    assert (status, texts["other"]["id"], texts["changes"]) == (200, "a", 1)
    assert ["differing", "Nobody drowned."] in [[kind, text.strip()] for kind, text in texts["own"]["spans"]]


def test_the_newest_unequal_pairs_are_told_newest_first(known: Filter) -> None:
    assert told(known, "pairs", b"") == (200, {"pairs": []})
    known.admit([{"id": "original", "text": TEXT}, {"id": "copy", "text": TEXT}])
    known.admit(
        [{"id": f"near {number}", "text": f"{TEXT} {number} * {number} boats"} for number in range(PAIRS_MAX + 5)]
    )
    known.admit([{"id": "other", "text": "Nothing of that kind is told here, and in other words at that."}])
    pairs = told(known, "pairs", b"")[1]["pairs"]
    assert [each["id"] for each in pairs] == [f"near {number}" for number in range(PAIRS_MAX + 4, 4, -1)]  # type: ignore[attr-defined]
    assert {each["original_id"] for each in pairs} == {"original"}  # type: ignore[attr-defined]


def test_the_pairs_of_a_host_are_those_of_no_other(tmp_path: Path) -> None:
    with Filter(tmp_path, load(None, ["decode.host=/url"], {})) as opened:
        hosts = ["a.example", "a.example", "b.example"]
        opened.admit(
            [{"id": str(at), "text": f"{TEXT} {at} boats", "url": f"https://{host}/"} for at, host in enumerate(hosts)]
        )
        assert [each["id"] for each in told(opened, "pairs", b"a.example")[1]["pairs"]] == ["1"]  # type: ignore[attr-defined]
        assert [each["id"] for each in told(opened, "pairs", b"b.example")[1]["pairs"]] == ["2"]  # type: ignore[attr-defined]
        assert told(opened, "pairs", b"c.example")[1]["pairs"] == []


def test_whole_texts_have_all_places_that_differ(known: Filter) -> None:
    lines = [" ".join(f"word{at}x{number}" for number in range(100)) + " {} boat" for at in range(12)]
    documents = [{"id": name, "text": "\n".join(line.format(name) for line in lines)} for name in ("old", "new")]
    known.admit(documents)

    def records_at(positions: Sequence[Position], _names: Mapping[str, str]) -> RecordsByPosition:
        return {
            at: Record(at.source, "known", at.offset, None, orjson.dumps(documents[at.offset]), 0) for at in positions
        }

    asked = Answers(known, Settings(), records_at)
    marked = {}
    for question in ("document", "texts"):
        texts = orjson.loads(asked.answer(question, b"new").body)["decisions"][0]["texts"]
        assert texts["changes"] == 12
        marked[question] = sum(kind == "differing" for kind, _ in texts["own"]["spans"]), texts["hidden"]
    assert marked == {"document": (6, 6), "texts": (12, 0)}


@pytest.mark.parametrize(
    ("scope", "names"),
    [
        ("host", ["bücher.example", "xn--bcher-kva.example", "BÜCHER.example.", "https://xn--bcher-kva.example/a"]),
        ("registrable-domain", ["bücher.example", "www.xn--bcher-kva.example", "https://news.bücher.example:80/"]),
    ],
)
def test_a_host_is_asked_for_by_any_of_its_names(tmp_path: Path, scope: str, names: list[str]) -> None:
    settings = load(None, [f"decode.host_scope={scope}", "index.directory=unused"], {})
    with Filter(tmp_path, settings) as opened:
        urls = [f"https://xn--bcher-kva.example/{place}" for place in range(3)]
        opened.admit([{"id": url, "text": TEXT * (place + 2)} for place, url in enumerate(urls)])
        opened.admit([{"id": f"{urls[0]}/again", "text": TEXT * 2 + "Nobody was hurt."}])
        for name in names:
            status, body = told(opened, "pairs", name.encode(), settings)
            assert (status, len(body["pairs"]) > 0) == (200, True), name  # type: ignore[arg-type]
        assert told(opened, "pairs", b"other.example", settings)[1]["pairs"] == []
