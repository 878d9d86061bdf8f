"""Explanations as machines read them."""

import orjson

from index.entry import Kind, Position, Source, Verdict
from index.index import Decided
from streamer.explain.explanation import Answer, Explanation, Likeness, Link, Near, Rule, Side, Span, Texts, as_json

AT = Position(Source("stream", 1), 2)
DECIDED = Decided("copy", AT, 1_700_000_000_123, Verdict.DUPLICATE, 0, Kind.NEAR, 3_000, "one", AT, None, 7)


def test_all_that_is_known_stands_in_the_json() -> None:
    explanation = Explanation(
        "copy",
        AT,
        "news/1/2",
        DECIDED.time_ms,
        DECIDED,
        "duplicate",
        "similar",
        "Dropped.",
        Likeness(0.7),
        "It is 0.7 similar.",
        (Rule("minhash.similarity_min", "0.7", "index", "meaning"),),
        (Link("one", AT, "news/1/0", -1, None, note="it has expired"),),
        (Near("far", AT, "news/1/5", -1, Likeness(distance=5, cosine=0.5), "other", True, "not near enough"),),
        texts=Texts(
            Side("copy", "news/1/2", "this one", "title", 4, (Span("same", "text"),)),
            Side("one", "news/1/0", "original", missing="gone"),
        ),
    )
    found = orjson.loads(orjson.dumps(Answer("copy", [explanation], 3).as_json()))
    assert (found["asked"], found["left_out"], found["problem"]) == ("copy", 3, "")
    (told,) = found["decisions"]
    assert (told["id"], told["position"], told["stream"], told["time"]) == (
        "copy",
        "news/1/2",
        "stream",
        "2023-11-14T22:13:20.123Z",
    )
    assert told["similarity"] == 0.7
    assert "distance" not in told
    assert told["rules"] == [
        {"setting": "minhash.similarity_min", "value": "0.7", "from": "index", "meaning": "meaning"}
    ]
    assert told["original"] == told["chain"][0]
    assert told["original"]["note"] == "it has expired"
    assert told["near"][0] | {"distance": 5, "cosine": 0.5, "time": None, "later": True} == told["near"][0]
    assert told["texts"]["own"]["spans"] == [["same", "text"]]
    assert (told["texts"]["other"]["role"], told["texts"]["other"]["missing"]) == ("original", "gone")


def test_without_an_original_and_without_texts_nothing_is_made_up() -> None:
    told = as_json(Explanation("copy", AT, "news/1/2", -1, DECIDED, "unique", "no-match", "Kept."))
    assert (told["chain"], told["near"], told["standing"]) == ([], None, None)
    assert "texts" not in told
    assert "similarity" not in told
