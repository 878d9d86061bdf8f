"""The description is valid OpenAPI 3.1, and every answer of the port is as it describes."""

from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from streamer.ask.openapi import description
from streamer.settings.ask import Ask
from tests.support.asked_service import KNOWN, NEAR, TEXT, Asked, asked_service


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """A port whose answering process is a real one."""
    with asked_service(tmp_path_factory.mktemp("asked"), "ask.documents_max=5", "topics.stories=stories") as running:
        running.attend_until_ready()
        yield running


def require_as_described(asked: Asked, method: str, template: str, status: int, answer: Any) -> None:
    described = asked.ask("GET", "/v1/openapi.json")[1]
    response = described["paths"][template][method]["responses"][str(status)]
    if "$ref" in response:
        response = described["components"]["responses"][response["$ref"].rpartition("/")[2]]
    schema = {**response["content"]["application/json"]["schema"], "components": described["components"]}
    Draft202012Validator(schema).validate(answer)


def test_the_description_is_valid(asked: Asked) -> None:
    OpenAPIV31SpecValidator(asked.ask("GET", "/v1/openapi.json")[1]).validate()
    broken = description(Ask())
    broken["paths"]["/v1/check"]["post"]["responses"] = {"200": {}}
    assert list(OpenAPIV31SpecValidator(broken).iter_errors())


def test_every_endpoint_answers_as_described(asked: Asked) -> None:
    documents: list[object] = [{"text": NEAR, "id": "x"}, {"text": "A text that nobody has seen before."}, {}, "a text"]
    answers = {
        ("post", "/v1/check", 200): asked.check(*documents),
        ("post", "/v1/check", 400): asked.check(1),
        ("post", "/v1/check", 413): asked.check(*documents, *documents),
        ("get", "/v1/documents/{id}", 200): asked.ask("GET", "/v1/documents/second%2Fpart%3F%3Cb%3E"),
        ("get", "/v1/documents/{id}", 404): asked.ask("GET", "/v1/documents/none"),
        ("get", "/v1/pairs", 200): asked.ask("GET", "/v1/pairs"),
        ("get", "/v1/pairs/{host}", 200): asked.ask("GET", "/v1/pairs/a.example"),
        ("get", "/v1/stories", 200): asked.ask("GET", "/v1/stories"),
        ("get", "/v1/stories", 400): asked.ask("GET", "/v1/stories?scope=a"),
        ("get", "/v1/stories/{host}", 200): asked.ask("GET", "/v1/stories/a.example"),
        ("get", "/v1/stories/{host}", 400): asked.ask("GET", "/v1/stories/a.example?scope=a"),
        ("get", "/v1/texts/{id}", 200): asked.ask("GET", "/v1/texts/second%2Fpart%3F%3Cb%3E"),
        ("get", "/v1/texts/{id}", 404): asked.ask("GET", "/v1/texts/none"),
        ("get", "/v1/audit", 200): asked.ask("GET", "/v1/audit"),
        ("get", "/v1/status", 200): asked.ask("GET", "/v1/status"),
        ("get", "/v1/pairs", 403): asked.ask("GET", "/v1/pairs", None, {"Host": "evil.example"}),
    }
    for (method, template, status), (given, answer) in answers.items():
        assert given == status, (template, answer)
        require_as_described(asked, method, template, status, answer)
    described = asked.ask("GET", "/v1/openapi.json")[1]
    assert {template for _, template, _ in answers} == set(described["paths"])
    checked = answers["post", "/v1/check", 200][1]["answers"]
    assert [each["verdict"] for each in checked] == ["duplicate", "unique", "dead-letter", "dead-letter"]
    assert checked[0]["original_id"] == KNOWN[0]["id"]
    (story,) = answers["get", "/v1/stories", 200][1]["stories"]
    assert (story["id"], story["documents"], story["newest"]["id"]) == (KNOWN[0]["id"], 2, KNOWN[1]["id"])
    assert answers["get", "/v1/stories/{host}", 200][1] == {"stories": []}
    (pair,) = answers["get", "/v1/pairs", 200][1]["pairs"]
    assert (pair["id"], pair["original_id"]) == (KNOWN[1]["id"], KNOWN[0]["id"])


def test_a_service_that_restores_its_index_answers_nobody(asked: Asked) -> None:
    from streamer.service.state import State

    asked.ask_service.attend([State.RUNNING, State.RESTORING])
    status, answer = asked.check({"text": TEXT})
    assert status == 503
    require_as_described(asked, "post", "/v1/check", status, answer)
    # A worker that is started anew says nothing about the index.
    asked.ask_service.attend([State.STARTING])
    assert asked.check({"text": TEXT})[0] == 503
    asked.ask_service.attend([State.RUNNING])
    asked.ask_service.attend([State.STARTING])
    assert asked.check({"text": TEXT})[0] == 200
