import time

import pytest

from streamer.settings.settings import Fingerprint
from streamer.settings.types import PlainText
from streamer.text.markup.cut_off import complete
from streamer.text.normalisation import Normaliser, visible_text

WORDS = "The ferry leaves the harbour at nine, and the children pay half. " * 3


@pytest.mark.parametrize(
    "begin",
    [
        "Assume x<y. ",
        "Assume x<y and y<z. ",
        "Assume x <!y. ",
        "A comment <!-- begins. ",
        "Two <!-- comments <!-- begin. ",
        "<p>A page</p><script>var a = 1; ",
        "<p>A page</p><STYLE type=a>a {} ",
        "<textarea>",
        "<title>",
        '<p>A page <a href="page.html>with a quote </a> ',
        "<p>A page <img alt='with a quote> ",
        "</y. ",
        "<?php ",
    ],
)
@pytest.mark.parametrize("markup", ["html", "html-main"])
def test_what_the_end_cuts_off_is_text(begin: str, markup: str) -> None:
    normaliser = Normaliser(Fingerprint(markup=markup))
    one, other = normaliser.without_markup([begin + WORDS, begin + WORDS.upper()])
    assert WORDS.strip() in " ".join(one.split())
    assert one != other


@pytest.mark.parametrize(
    "page",
    [
        "<html><head><title>A</title></head><body><p>it's 5\" wide</p><!-- a --><script>a<b</script></body></html>\n",
        "<svg><style/></svg><p title='a>b'>x</p>",
        "<p>a</p><!--> b <!---> c",
        "no mark-up & no sign",
        "",
    ],
)
def test_a_whole_page_stays_as_it_is(page: str) -> None:
    assert complete(page) == page or "<style/>" in page


def test_readings_do_not_count_and_shadow_roots_and_html_in_drawings_do() -> None:
    ruby = "<p><ruby>漢<rp>(</rp><rt>かん</rt><rp>)</rp>字<rt>じ</ruby> and more"
    assert visible_text(ruby).split() == ["漢字", "and", "more"]
    (article,) = Normaliser(Fingerprint(markup="html-main")).without_markup(
        [f"<article><p>{WORDS}{ruby}</p></article>"]
    )
    assert "漢字" in article
    assert "かん" not in article
    assert visible_text(
        f"<template>hidden</template><div><TEMPLATE shadowRootMode=open>{WORDS}</template></div>"
    ).split() == (WORDS.split())
    nested = "<template shadowrootmode='open'>a<template>b</template>c</template>d"
    assert "".join(visible_text(nested).split()) == "acd"
    drawing = (
        "<svg><title>t</title><g><foreignObject><p>shown</p><svg><text>no</text></svg></foreignObject></g></svg>after"
    )
    assert visible_text(drawing).split() == ["shown", "after"]


def test_a_text_that_is_known_to_be_plain_keeps_every_character() -> None:
    for markup in ("none", "html", "html-main"):
        text = PlainText("if x<y and y>z: <b> &amp; " + WORDS)
        assert Normaliser(Fingerprint(markup=markup)).without_markup([text]) == [text]


@pytest.mark.parametrize(
    "piece",
    [
        "<!--",
        "<script>",
        '<a b="',
        "<a b='",
        "<",
        "<a b='>\"",
        "<svg><foreignObject>",
        "<template shadowrootmode=a>",
        "<rt>",
        "'",
    ],
)
def test_it_takes_time_as_the_page_is_long(piece: str) -> None:
    took = []
    for size in (50_000, 400_000):
        begin = time.process_time()
        visible_text(piece * (size // len(piece)))
        took.append(time.process_time() - begin)
    assert took[1] < 20 * took[0] + 1
