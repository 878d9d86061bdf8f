"""The article of a page: the same in any page around it, for any input, and an error where its package is missing."""

import importlib.metadata
import importlib.util
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from streamer.errors import SettingsError
from streamer.fingerprint.scheme import scheme_for
from streamer.service.file_job import filter_files
from streamer.settings.settings import load
from streamer.text.characters import normalise
from streamer.text.markup.main_text import main_text, releases, require
from streamer.text.normalisation import Normaliser, article_text, visible_text
from tests.support.examples import examples
from tests.support.pages import BLOCKS, ELEMENTS, PARAGRAPHS


def test_the_article_is_what_two_pages_have_in_common() -> None:
    expected = normalise("\n".join(PARAGRAPHS))
    for page in (BLOCKS, ELEMENTS):
        assert normalise(main_text(page) or "") == expected
        for around in ("Weather", "All rights", "天气预报", "版权所有", "大家都在看"):
            assert (around in visible_text(page)) == (around in page)


@pytest.mark.parametrize("scheme", ["simhash", "minhash"])
def test_one_article_in_two_pages_has_one_fingerprint_only_where_the_setting_is_on(scheme: str) -> None:
    for markup, alike in (("none", False), ("html", False), ("html-main", True), ("auto", True)):
        made = scheme_for(load(None, [f"fingerprint.scheme={scheme}", f"fingerprint.markup={markup}"], {}))
        one, other = made.fingerprint([BLOCKS, ELEMENTS]).fingerprints
        assert (one == other).all() == alike


@pytest.mark.parametrize(
    "text",
    [
        "no mark-up at all",
        "3 < 4 and 5 > 4",
        "<p>one <b>short</b> piece</p>",
        "&lt;p&gt; a",
        "",
        "<",
        "<!-- nothing -->",
    ],
)
def test_a_text_that_is_no_page_gets_its_visible_text(text: str) -> None:
    assert article_text(text) == visible_text(text)


pieces = st.sampled_from(
    ["<p>", "</p>", "<div class='comment'>", "<table><tr><td>", "<a href=x>", "&amp;", "&#0;", "\0"]
)


@examples(60)
@given(st.lists(st.one_of(pieces, st.text(max_size=60), st.sampled_from(PARAGRAPHS)), max_size=30))
def test_any_text_can_be_parsed_as_a_page_and_gives_equal_results_twice(parts: list[str]) -> None:
    text = "".join(parts)
    assert article_text(text) == article_text(text)
    assert "\0" not in article_text(f"<p>{text}")


def test_the_stamp_names_the_releases_that_the_text_depends_on() -> None:
    stamp = Normaliser(load(None, ["fingerprint.markup=html-main"], {}).fingerprint).stamp()
    assert stamp == {"markup": f"html-main, format 3, {releases()}"}
    assert f"trafilatura {importlib.metadata.version('trafilatura')}" in releases()
    assert "lxml " in releases()


@pytest.mark.parametrize("scheme", ["simhash", "minhash"])
def test_without_the_package_the_error_names_it(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    for markup in ("auto", "html-main"):
        own = load(None, [f"fingerprint.scheme={scheme}", f"fingerprint.markup={markup}"], {})
        with pytest.raises(
            SettingsError, match=rf'fingerprint.markup: "{markup}" needs .*pip install .*trafilatura==2'
        ):
            scheme_for(own)
    scheme_for(load(None, [f"fingerprint.scheme={scheme}", "fingerprint.markup=none"], {}))


@pytest.mark.parametrize("scheme", ["simhash", "minhash"])
def test_pages_stay_whole_in_the_outputs(scheme: str, tmp_path: Path) -> None:
    lines = [orjson.dumps({"id": str(number), "text": page}) for number, page in enumerate((BLOCKS, ELEMENTS))]
    (tmp_path / "in.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    overrides = [
        f"fingerprint.scheme={scheme}",
        "fingerprint.markup=html-main",
        f"index.directory={tmp_path / 'index'}",
    ]
    filter_files(load(None, overrides, {}), [tmp_path / "in.jsonl"], tmp_path / "out", Console(quiet=True))
    assert (tmp_path / "out" / "unique.jsonl").read_bytes() == lines[0] + b"\n"
    assert (tmp_path / "out" / "duplicate.jsonl").read_bytes() == lines[1] + b"\n"


def test_a_page_of_more_tags_than_the_limit_gets_its_visible_text() -> None:
    page = (
        "<html><body><nav>Home</nav><article>"
        + "<p>The quick <b>brown</b> fox.</p>" * 10_000
        + "</article></body></html>"
    )
    assert article_text(page) == visible_text(page)
