"""Mark-up that is nested without end costs linear time, and ordinary mark-up is left as it is."""

import time
from itertools import count, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from streamer.text.markup import nesting
from streamer.text.markup.nesting import ATTRIBUTES_MAX, FORMATTING_MAX, NESTING_MAX, bounded
from streamer.text.normalisation import visible_text
from tests.support.examples import examples

BLOCKS = frozenset({"div", "p", "ul", "li"})

inline = st.sampled_from(["b", "i", "font", "span", "a", "em"])
block = st.sampled_from(["div", "section", "ul", "blockquote"])
words = st.text("abc<>& 中\n", max_size=12).map(lambda text: text.replace("&", "&amp;").replace("<", "&lt;"))


def element(name: str, inner: list[str]) -> str:
    return f"<{name} class='x>y'>{''.join(inner)}</{name}>"


phrases = st.recursive(words, lambda inner: st.builds(element, inline, st.lists(inner, max_size=3)), max_leaves=6)
hidden = st.sampled_from(["<script>if (a<div>b) '</div>'</script>", "<!-- <div> -->", "<br>", "<img alt='</div>'>"])
pages = st.recursive(
    st.one_of(phrases, hidden), lambda inner: st.builds(element, block, st.lists(inner, max_size=4)), max_leaves=30
)


@pytest.fixture
def _every_text_is_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nesting, "_harmless", lambda text: False)


@pytest.mark.usefixtures("_every_text_is_looked_through")
@given(st.one_of(pages, st.text(), st.text("<>&;/p#x=\"'! -\n", max_size=40)))
def test_what_is_not_nested_absurdly_stays_as_it_is(text: str) -> None:
    assert bounded(text, BLOCKS) is text


@pytest.mark.usefixtures("_every_text_is_looked_through")
@given(pages)
def test_beyond_the_limit_elements_lose_their_tags_and_no_text(page: str) -> None:
    deep = "<div>" * (NESTING_MAX - 1) + page
    assert visible_text(deep).split() == visible_text(page).split()


@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.usefixtures("_every_text_is_looked_through")
def test_the_limits_are_exact(extra: int) -> None:
    nested = "<div>" * (NESTING_MAX + extra)
    formatted = "<b>" * (FORMATTING_MAX + extra)
    attributed = "<b" + "".join(f" a{number}='>'" for number in range(ATTRIBUTES_MAX + extra)) + ">"
    for text in (nested, formatted, attributed):
        assert (bounded(text, BLOCKS) == text) == (extra == 0)


def test_elements_closed_again_are_not_nested() -> None:
    text = "<div><b>word</b></div>" * 20_000
    assert bounded(text, BLOCKS) is text


def test_a_block_beyond_the_limit_still_parts_words_and_a_format_does_not() -> None:
    deep = "<div>" * 10_000
    assert visible_text(f"{deep}on<div>e</div>two <b>w</b>ord").split() == ["on", "e", "two", "word"]


@pytest.mark.parametrize(
    "pattern",
    [
        "<div>word ",
        "<span>word ",
        "<font size={}>word <p>",
        "<div><font size={}></div>word ",
        "<div><!--</div>-->word ",
        "<div><script></div></script>word ",
        "<div title='</div>'>word ",
        "<DIV>word </div x",
        "<table><tr><td>word ",
        "<ul><li>word ",
        "<li><dd>word ",
        "<svg><title><div>word ",
        "<body a{}=1>word ",
        "<b '>word ",
        "<table><b id={}><td></b></table>word ",
        "<b id={}><table></b></table>word ",
        "<span><div></span></div>word ",
        "<div><select></div></select>word ",
        "<svg><desc><div></svg></div></desc><title><div>word ",
        "<optgroup>word ",
        "<!--",
        '<div a="',
    ],
)
def test_300_kb_of_any_pattern_take_no_longer_than_a_few_seconds(pattern: str) -> None:
    text = "".join(islice((pattern.format(number) for number in count()), 300_000 // len(pattern)))
    begin = time.process_time()
    visible_text(text)
    assert time.process_time() - begin < 4


def test_one_tag_of_attributes_takes_no_longer_than_a_few_seconds() -> None:
    text = "<p " + " ".join(f"a{number}=1" for number in range(80_000)) + ">word"
    begin = time.process_time()
    assert visible_text(text).strip() == "word"
    assert time.process_time() - begin < 4


TAGS = (
    *("a", "annotation-xml", "b", "body", "br", "button", "caption", "center", "col", "colgroup", "dd"),
    *("desc", "div", "dt", "font", "foreignObject", "form", "frameset", "h1", "h2", "head", "i", "iframe"),
    *("input", "li", "marquee", "math", "mi", "nobr", "noscript", "object", "optgroup", "option", "p"),
    *("path", "rt", "ruby", "script", "select", "span", "style", "svg", "table", "tbody", "td", "template"),
    *("textarea", "title", "tr", "ul", "x"),
)
tokens = st.one_of(
    st.sampled_from([f"<{tag} id={{}}>" for tag in TAGS] + [f"</{tag}>" for tag in TAGS]),
    st.sampled_from(["x", "<!--", "-->", "<![CDATA[", "]]>", "<path/>"]),
)


def depth_of(text: str) -> int:
    root = LexborHTMLParser(text).root
    deepest, waiting = 0, [(root, 1)]
    while waiting:
        node, depth = waiting.pop()
        while node is not None:
            deepest = max(deepest, depth)
            waiting.append((node.child, depth + 1))
            node = node.next
    return deepest


@pytest.mark.usefixtures("_every_text_is_looked_through")
@examples(200)
@given(st.lists(tokens, min_size=2, max_size=10).map("".join))
def test_no_order_of_tags_makes_a_tree_deeper_than_the_limit(piece: str) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(nesting, "NESTING_MAX", 16)
        patched.setattr(nesting, "FORMATTING_MAX", 4)
        text = bounded("".join(piece.replace("{}", str(number)) for number in range(200)), BLOCKS)
    # Rows, cells, paragraphs and the like are not counted.
    assert depth_of(text) < 6 * 16


def test_no_more_elements_than_the_limit_are_open_at_once() -> None:
    parser = LexborHTMLParser(bounded("<div>" * 100_000 + "word", BLOCKS))
    assert len(parser.css("div")) == NESTING_MAX
