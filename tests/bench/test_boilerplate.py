"""The bench of pages: articles told from their boilerplate, templates that hold both, and one run."""

from pathlib import Path

import orjson
from click.testing import CliRunner

from bench.boilerplate import MARKUPS, article_of, blocks, elements, main, pairs_of
from streamer.text.normalisation import visible_text

SENTENCES = (
    "The ferry to the island was late again on {day}, and the people on the pier of {place} waited in the rain for hours.",
    "Nobody at the office of the harbour in {place} wanted to say when the second engine will be repaired or replaced.",
    "On {day} the council of {place} talks about a bridge, which has been talked about since the old one was torn down.",
    "Fishermen from {place} took the children home in their boats, and asked for nothing but a cup of coffee on {day}.",
)


def page(place: str, day: str) -> str:
    text = "".join(f"<p>{sentence.format(place=place, day=day)}</p>" for sentence in SENTENCES)
    return f"<html><body><ul><li>News of {place}<li>Weather on {day}</ul><div>{text}</div><i>Imprint</i></body></html>"


PAGES = [
    page("Reed Bay", "Monday"),
    page("Fir Hill", "Tuesday"),
    page("Salt Mill", "Sunday"),
    page("Elm Ford", "Friday"),
]


def test_running_text_is_told_from_what_stands_around_it() -> None:
    article = article_of(PAGES[0])
    assert article is not None
    assert list(article.paragraphs) == [sentence.format(place="Reed Bay", day="Monday") for sentence in SENTENCES]
    assert list(article.boilerplate) == ["News of Reed Bay", "Weather on Monday", "Imprint"]
    assert article_of("<ul><li>one<li>two</ul>") is None


def test_both_templates_hold_every_line_once() -> None:
    lines = ["Home", "News & more", "Weather", "Contact", "Imprint"]
    for template in (blocks, elements):
        seen = visible_text(template(["A paragraph < 3.", "Another."], lines))
        assert "A paragraph < 3." in seen
        assert all(line in seen for line in lines)


def test_a_page_that_stands_twice_is_in_no_pair_of_different_ones() -> None:
    articles = [article for each in [*PAGES, PAGES[3]] if (article := article_of(each)) is not None]
    found = pairs_of(articles)
    assert len(found["same"][0]) == len(found["page"][0]) == 5
    assert len(found["different"][0]) == 4


def test_the_bench_shows_what_each_step_finds(tmp_path: Path) -> None:
    file = tmp_path / "pages.jsonl"
    file.write_bytes(b"\n".join(orjson.dumps({"html": each}) for each in PAGES))
    done = CliRunner().invoke(main, [str(file), "--json"])
    assert done.exit_code == 0, done.output
    outcomes = orjson.loads(done.output)
    assert len(outcomes) == 2 * len(MARKUPS) * 3
    same = {(each["scheme"], each["markup"]): each for each in outcomes if each["kind"] == "same"}
    assert all(same[scheme, "html-main"]["found"] == 4 for scheme in ("simhash", "minhash"))
    assert same["minhash", "none"]["found"] < 4
    assert same["simhash", "html-main"]["median"] == 0
    assert "html-main" in CliRunner().invoke(main, [str(file)]).output
    assert CliRunner().invoke(main, [str(tmp_path / "none")]).exit_code == 2
