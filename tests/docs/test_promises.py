"""Promises of the README, kept by the library over an index on disk."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import orjson
import pytest

from deploy.crafted_line import crafted_line
from deploy.made_up_site import LANGUAGES, Language, reprints
from streamer import Filter, load_settings
from streamer.evaluation.calibration import similarity
from tests.support.command_line import run

README = (Path(__file__).parents[2] / "README.md").read_text()
ARTICLES = 60
TEXTS = reprints("zh", 0, articles=ARTICLES, hosts=1).texts


@pytest.fixture(params=["public", "secret"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Filter]:
    settings = load_settings(overrides=[f"fingerprint.key={request.param}"])
    with Filter(tmp_path / "index", settings) as filtering:
        yield filtering


def documents(prefix: str, texts: list[str]) -> list[dict[str, object]]:
    return [
        {"id": f"{prefix}-{number}", "url": f"https://{prefix}-{number}.example/", "text": text}
        for number, text in enumerate(texts)
    ]


def test_a_pasted_line_wipes_out_nothing(opened: Filter) -> None:
    line, _ = crafted_line("zh", 132)
    answers = opened.admit(documents("pasted", [f"{text}\n{line}" for text in TEXTS]))
    assert {answer.verdict for answer in answers} == {"unique"}


def test_a_pasted_line_hides_no_copy(opened: Filter) -> None:
    line, _ = crafted_line("zh", 48)
    opened.admit(documents("article", TEXTS))
    answers = opened.admit(documents("copy", [f"{text}\n{line}" for text in TEXTS]))
    assert {answer.verdict for answer in answers} == {"duplicate"}
    assert [answer.original_id for answer in answers] == [f"article-{number}" for number in range(ARTICLES)]


def letters(text: str) -> int:
    return sum(map(str.isalnum, text))


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_dropped_is_half_like_what_was_kept_and_a_tenth_longer_at_most(
    opened: Filter, language: Language
) -> None:
    sentence = (
        "What is dropped is at least half like what was kept, and at most a tenth longer. A longer version passes, and names "
        "the shorter one."
    )
    assert sentence in " ".join(README.split())
    rng, texts = np.random.default_rng(7), reprints(language, 0, articles=20, hosts=1).texts
    # Versions that grow, shrink, and change in the middle, in any order.
    versions = {}
    for at, text in enumerate(texts):
        for number, (share, moved) in enumerate(zip(rng.uniform(0.5, 1, 12), rng.integers(0, 200, 12), strict=True)):
            versions[f"{at}-{number}"] = text[moved:][: int(share * len(text))]
    asked = [{"id": name, "text": versions[name]} for name in rng.permutation(list(versions)).tolist()]
    answers = dict(zip((str(each["id"]) for each in asked), opened.admit(asked), strict=True))
    dropped = {name: answer for name, answer in answers.items() if answer.verdict == "duplicate"}
    longer = {name: answer for name, answer in answers.items() if answer.verdict == "extends"}
    assert min(len(dropped), len(longer)) >= 10
    likeness: list[float] = []
    for name, answer in dropped.items():
        kept = str(answer.original_id)
        assert answers[kept].verdict in ("unique", "extends")
        likeness.append(similarity(versions[kept], versions[name]))
        assert letters(versions[name]) <= 1.1 * letters(versions[kept])
    # The filter estimates likeness with a deviation of .05, and by another key each time (docs/limits.md).
    assert min(likeness) >= 0.5 - 4 * 0.05
    assert np.mean(np.array(likeness) < 0.5) <= 0.1
    for name, answer in longer.items():
        assert letters(versions[name]) >= 1.1 * letters(versions[str(answer.original_id)])


def test_what_is_decided_without_a_crafted_line_is_explained_and_proven(tmp_path: Path) -> None:
    line, _ = crafted_line("zh", 48)
    lines = [*documents("article", TEXTS[:3]), *documents("copy", [text + line for text in TEXTS[:2]])]
    (tmp_path / "crawled.jsonl").write_bytes(b"\n".join(map(orjson.dumps, [*lines, {"id": "line", "text": line}])))
    places = ("--out", tmp_path / "out", "--index", tmp_path / "index", "--set", "fingerprint.key=public")
    assert run("filter", tmp_path / "crawled.jsonl", *places).code == 0
    assert "a line that was crafted to hide it" in " ".join(run("why", "copy-1", *places).out.split())
    assert "Kept undecided: the text holds lines crafted" in " ".join(run("why", "line", *places).out.split())
    assert "all is sound" in run("verify", *places).out
