"""A page is compared by its article only where the article stands for the page."""

import random
import tempfile

import pytest

from streamer import Filter
from streamer.text.normalisation import LEFT_OUT_SHARE_MAX, article_text, page_text, visible_text
from tests.support.pages import ARTICLE, PARAGRAPHS

LINES = {
    "en": "Own words stand in this list, and no other page has them.",
    "zh": "这个列表里有这一页自己的话，别的页面都没有这些话。",
}
LEFT_OUT = {
    "items": "<ul>{}</ul>",
    "links": "<ul><li><a href='/a'>{}</a></ul>",
    "table": "<table><tr><td>{}</table>",
    "comments": "<div class='comments'>{}</div>",
    "header": "<article><header>{}</header></article>",
    "main": "<main role='banner'>{}</main>",
}
FURNITURE = {
    "menu": "<nav>{}</nav>",
    "block": "<div class='Menu top'>{}</div>",
    "role": "<div role=navigation>{}</div>",
    "aside": "<aside>{}</aside>",
    "footer": "<footer>{}</footer>",
    "menus in menus": "<header><nav><nav>{}</nav></nav></header>",
}


def page(own: str, *, begin: str = "<body>") -> str:
    return f"<!doctype html><html>{begin}<div class='cookie'>{ARTICLE}</div>{own}</body></html>"


@pytest.mark.parametrize("begin", ["<body>", "<body role=navigation class=menu>"])
@pytest.mark.parametrize("language", sorted(LINES))
@pytest.mark.parametrize("element", sorted(LEFT_OUT))
def test_own_text_that_the_article_leaves_out_is_compared(element: str, language: str, begin: str) -> None:
    whole = page(LEFT_OUT[element].format(LINES[language] * 2), begin=begin)
    assert LINES[language] in page_text(whole)
    assert page_text(whole) in (visible_text(whole), article_text(whole))


@pytest.mark.parametrize("element", sorted(FURNITURE))
def test_menus_and_footers_are_not(element: str) -> None:
    whole = page(FURNITURE[element].format(LINES["en"] * 20))
    assert page_text(whole) == article_text(whole)
    assert LINES["en"] not in page_text(whole)


def test_an_article_in_the_footer_does_not_count_for_what_stands_elsewhere() -> None:
    whole = f"<html><body><div>{LINES['en'] * 2}</div><footer>{ARTICLE}</footer></body></html>"
    assert LINES["en"] in page_text(whole)


def test_a_tenth_beside_the_article_is_too_little() -> None:
    letters = sum(map(str.isalnum, "".join(PARAGRAPHS)))
    for share, stands in ((LEFT_OUT_SHARE_MAX / 2, True), (LEFT_OUT_SHARE_MAX * 2, False)):
        whole = page(f"<ul><li>{'x' * int(letters * share)}</ul>")
        assert (page_text(whole) == article_text(whole)) == stands


@pytest.mark.parametrize("element", sorted({*LEFT_OUT} - {"header", "main"}))
@pytest.mark.parametrize("language", sorted(LINES))
def test_a_notice_on_all_pages_wipes_out_no_site(language: str, element: str) -> None:
    dice = random.Random(1)
    letters, blank, end = (
        ([chr(each) for each in range(0x4E00, 0x8000)], "", "。")
        if language == "zh"
        else ([*"abcdefghijklmnop"], " ", ". ")
    )
    words = ["".join(dice.choices(letters, k=2 if language == "zh" else dice.randint(3, 9))) for _ in range(4_000)]

    def sentence() -> str:
        return blank.join(dice.choices(words, k=14)) + end

    notice = "<p>" + "".join(sentence() for _ in range(8)) + "</p>"
    pages = [
        {
            "id": str(number),
            "url": f"https://shop.example/{number}",
            "text": f"<!doctype html><html><body><div class='cookie'>{notice}</div>"
            + LEFT_OUT[element].format(sentence() + sentence() + sentence())
            + "</body></html>",
        }
        for number in range(100)
    ]
    # By a key drawn anew, a page is now and then estimated as too similar.
    public = {"fingerprint.key": "public"}
    with tempfile.TemporaryDirectory() as directory, Filter(directory, public) as seen:
        assert sum(not answer.kept for answer in seen.admit(pages)) == 0
