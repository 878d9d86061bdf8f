"""The steps that settings add to the normal form: mark-up taken off, Traditional characters as Simplified."""

import numpy as np
import opencc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.fingerprint.simhash.fingerprinter import Fingerprinter
from streamer.settings.settings import Fingerprint
from streamer.text.characters import CODE_POINTS, normalise
from streamer.text.normalisation import Normaliser, simplified, visible_text

TRADITIONAL = "臺北的夜市裡賣著蚵仔煎、滷肉飯和珍珠奶茶，許多道路被倒下的樹木阻斷，居民自發清理。"
SIMPLIFIED = "台北的夜市里卖著蚵仔煎、卤肉饭和珍珠奶茶，许多道路被倒下的树木阻断，居民自发清理。"


def read(text: str, **changes: object) -> str:
    return Normaliser(Fingerprint.model_validate(changes)).characters([text]).text(0)


def test_no_step_is_added_by_default() -> None:
    for text in (TRADITIONAL, "a &amp; <b>b</b>"):
        assert read(text) == normalise(text)


# --- Traditional and Simplified --------------------------------------------------------------------------------------


def test_traditional_text_becomes_simplified() -> None:
    assert read(TRADITIONAL, simplify=True) == read(SIMPLIFIED, simplify=True) == normalise(SIMPLIFIED)


def test_characters_are_converted_one_by_one_as_by_the_library() -> None:
    table, converter = simplified(), opencc.OpenCC("t2s")
    changed = np.flatnonzero(table != np.arange(CODE_POINTS, dtype=np.uint32))
    assert len(changed) > 4_000
    steps = [converter.convert(chr(codepoint)) for codepoint in changed.tolist()]
    assert [converter.convert(step) for step in steps] == [chr(form) for form in table[changed].tolist()]


def test_simplified_characters_do_not_change() -> None:
    table = simplified()
    assert (table[table] == table).all()
    assert table.dtype == np.uint32
    assert len(table) == CODE_POINTS


def test_both_writings_get_one_fingerprint_where_the_setting_is_on() -> None:
    chosen = Fingerprint(simplify=True, features_min=1)
    one, other = Fingerprinter(chosen).fingerprint([TRADITIONAL, SIMPLIFIED]).fingerprints
    assert one == other
    one, other = Fingerprinter(Fingerprint(features_min=1)).fingerprint([TRADITIONAL, SIMPLIFIED]).fingerprints
    assert np.bitwise_count(one ^ other) > 10


# --- mark-up ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<p>中<b>国</b>人</p><p>a&amp;b<br>c</p>", "中国人 a&b c"),
        ("<html><head><title>t</title><style>x{}</style></head><body>a<script>1</script> b</body></html>", "a b"),
        ("<ul><li>one<li>two</ul><table><tr><td>1<td>2</table>", "one two 1 2"),
        ("no mark-up at all", "no mark-up at all"),
        ("3 < 4 and 5 > 4", "3 < 4 and 5 > 4"),
        ("&lt;p&gt; &#x4e2d;&#22269;", "<p> 中国"),
        ("<!-- nothing -->", ""),
        ("<div>cut off <spa", "cut off <spa"),
        ("a\0<b>b</b>", "a\ufffdb"),
        ("", ""),
    ],
)
def test_the_visible_text_of_html(text: str, expected: str) -> None:
    assert read(text, markup="html") == expected


@pytest.mark.parametrize(
    "attribute",
    [
        "hidden",
        "HIDDEN=''",
        "aria-hidden=true",
        "style='display:none'",
        "style='color: red; DISPLAY : None !important'",
        "style='visibility: hidden;'",
        "style='display: block; display: none'",
    ],
)
def test_hidden_elements_do_not_count(attribute: str) -> None:
    page = f"<p>one</p><div {attribute}>two<p hidden>three</p><b>four</b></div><span>five</span>"
    assert visible_text(page).split() == ["one", "five"]


@pytest.mark.parametrize(
    "attribute",
    [
        "hidden=until-found",
        "aria-hidden=false",
        "style='display:block'",
        "style='display:none; display:block'",
        "style='font-size:0.5em'",
        "style='font-size:0px'",
        "style='background: url(a?display:none)'",
    ],
)
def test_what_a_reader_can_see_counts(attribute: str) -> None:
    assert visible_text(f"<p>one</p><div {attribute}><b>two</b></div>").split() == ["one", "two"]


def test_text_without_size_does_not_count() -> None:
    assert visible_text("<p>one</p><span style='font-size:0px'>two</span>").split() == ["one"]


def test_a_page_that_shows_enough_counts_nothing_that_it_hides() -> None:
    shown = "The lights of the bridge are on. " * 50
    assert (
        visible_text(f"<p>{shown}</p><div style='display:none'>{'cheap watches ' * 5_000}</div>").split()
        == shown.split()
    )


@pytest.mark.parametrize("tag", ["html", "body", "div", "main"])
def test_a_page_that_a_script_shows_at_last_keeps_its_text(tag: str) -> None:
    page = f"<{tag} style='display:none'><p>The bridge is open.</p><p hidden>It was shut.</p></{tag}>"
    assert "bridge" in visible_text(page)


def test_hidden_text_hides_no_copy() -> None:
    page = "<p>The lights of the bridge are on, and the engineers went home.</p>"
    spam = f"{page}<div style='display:none'>{'cheap watches and other words ' * 10}</div>"
    scheme = Fingerprinter(Fingerprint(markup="html", features_min=1))
    one, other = scheme.fingerprint([page, spam]).fingerprints
    assert one == other


@given(st.one_of(st.text(), st.text("<>&;/p#x41 \n", max_size=30)))
def test_any_text_can_be_parsed_as_html(text: str) -> None:
    found = visible_text(text)
    if "<" not in text and "&" not in text:
        assert found == text


def test_mark_up_changes_no_fingerprint_where_the_setting_is_on() -> None:
    plain = "The lights of the bridge are on.\nThe engineers went home.\n"
    marked = "<article>" + "".join(f"<p class='x'>{line}</p>" for line in plain.splitlines()) + "</article>"
    own = Fingerprinter(Fingerprint(markup="html", features_min=1)).fingerprint([plain, marked]).fingerprints
    assert own[0] == own[1]
    raw = Fingerprinter(Fingerprint(markup="none", features_min=1)).fingerprint([plain, marked]).fingerprints
    assert np.bitwise_count(raw[0] ^ raw[1]) > 5


# --- lists and the stamp ---------------------------------------------------------------------------------------------


def test_words_of_lists_are_normalised_like_texts() -> None:
    assert Normaliser(Fingerprint()).words(["Ｒiver", "綜上所述"]) == ["river", "綜上所述"]
    assert Normaliser(Fingerprint(simplify=True)).words(["Ｒiver", "綜上所述"]) == ["river", "综上所述"]
    assert Normaliser(Fingerprint()).words([]) == []


def test_the_stamp_names_the_steps_that_are_switched_on() -> None:
    assert Normaliser(Fingerprint(markup="none")).stamp() == {}
    assert Normaliser(Fingerprint(markup="html", simplify=True)).stamp().keys() == {"markup", "simplify"}
