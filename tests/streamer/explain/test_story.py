from pathlib import Path
from typing import Any

import orjson
import pytest
from jsonschema import Draft202012Validator

from index import Named, Position, Source, Story
from streamer.explain.story import story_as_json, story_record
from tests.support.paths import ROOT

AT = Position(Source("topic-id", 1), 7)
ROOT_OF_STORY = Named("a", Position(Source("topic-id", 0), 3))
STORY = Story(
    3, ROOT_OF_STORY, 47, 31, ("a.example",), 1_000, 2_000, Named(None, AT), ROOT_OF_STORY, ROOT_OF_STORY, None
)
NAMES = {"topic-id": "pages"}


def schema() -> dict[str, Any]:
    described: dict[str, Any] = orjson.loads((ROOT / "docs" / "stories.json").read_bytes())
    return described


def test_a_value_is_as_its_schema_says() -> None:
    Draft202012Validator.check_schema(schema())
    validator = Draft202012Validator(schema())
    validator.validate(story_as_json(STORY, NAMES))
    assert not validator.is_valid(story_as_json(STORY._replace(documents=1), NAMES))


def test_the_api_describes_a_story_as_the_schema_does() -> None:
    described = orjson.loads((ROOT / "streamer" / "ask" / "openapi.json").read_bytes())["components"]["schemas"][
        "Story"
    ]
    assert described["properties"].keys() == schema()["properties"].keys() == set(described["required"])


def test_a_record_is_keyed_by_the_root_and_names_a_position_of_its_transaction() -> None:
    outgoing = story_record(STORY, NAMES, AT)
    assert outgoing.record.key == b'{"position":"pages/0/3","id":"a"}'
    assert orjson.loads(outgoing.record.value or b"") == story_as_json(STORY, NAMES)
    assert dict(outgoing.headers) == {"neardup.position": b"pages/1/7", "neardup.stream": b"topic-id"}
    assert (outgoing.record.source, outgoing.record.offset, outgoing.record.timestamp_ms) == (AT.source, 7, 2_000)


@pytest.mark.parametrize("documents", [0, 1])
def test_a_story_that_lost_its_documents_has_no_value(documents: int) -> None:
    assert story_record(STORY._replace(documents=documents), NAMES, AT).record.value is None


def test_an_id_that_is_half_a_pair_of_surrogates_goes_out() -> None:
    odd = STORY._replace(root=Named("\ud800", ROOT_OF_STORY.position))
    assert b"\\ud800" in (story_record(odd, NAMES, AT).record.key or b"")


def test_the_page_of_stories_names_the_schema() -> None:
    assert Path(ROOT / "docs" / "stories.md").read_text().count("stories.json")
