"""What a text is: pages and fragments of HTML are read as such, and nothing else is touched."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.fingerprint.scheme import scheme_for
from streamer.settings.settings import Fingerprint, load
from streamer.settings.types import CalledHtml, CalledPlain, PlainText
from streamer.text.markup.pages import Form, form_of
from streamer.text.normalisation import Normaliser, article_text, text_as_it_is, visible_text
from tests.support.examples import examples
from tests.support.pages import ARTICLE, BLOCKS, ELEMENTS, PARAGRAPHS

PLAIN = "\n".join(PARAGRAPHS)
PAGES = {
    "as of twenty years ago": BLOCKS,
    "as of today": ELEMENTS,
    "in capitals": ELEMENTS.replace(
        "<!doctype html><html>", "<!DOCTYPE HTML PUBLIC '-//W3C//DTD HTML 4.01//EN'>\n<HTML>"
    ),
    "without a doctype": ELEMENTS.removeprefix("<!doctype html>"),
    "after a mark and blanks": "\ufeff \r\n\t" + ELEMENTS,
    "after comments": "<!-- saved from a browser --><!--[if IE]><![endif]-->\n" + ELEMENTS,
    "XHTML": '<?xml version="1.0" encoding="UTF-8"?>\n<?xml-stylesheet href="a.css"?>\n<!DOCTYPE html PUBLIC '
    '"-//W3C//DTD XHTML 1.0 Strict//EN" "http://www.w3.org/TR/xhtml1/DTD/xhtml1-strict.dtd">' + BLOCKS,
    "without its first tags": ELEMENTS.removeprefix("<!doctype html><html>"),
    "by its type": CalledHtml("Skip to the article" + ELEMENTS.removeprefix("<!doctype html><html><body>")),
}
TEXTS = {
    "no mark-up": PLAIN,
    "a sign": f"if x<y and y>z: {PLAIN}",
    "a generic type": f"List<div> and Map<p, a> {PLAIN}",
    "a lone tag first": f"<div> is an element of HTML. {PLAIN}",
    "marks of another language": f"<stdin>:1: warning {PLAIN}</stdin>",
    "quoted mark-up": f"To write `<p>words</p>`, begin with <html>: {PLAIN}",
    "a feed": f"<?xml version='1.0'?><rss version='2.0'><channel><title>News</title><item><description>{PLAIN}</description>",
    "a feed of the other kind": f"<feed xmlns='http://www.w3.org/2005/Atom'><title>t</title><summary>{PLAIN}</summary></feed>",
    "XML": f"<?xml version='1.0'?><article-list><p>{PLAIN}</p></article-list>",
    "a doctype of something else": f"<!DOCTYPE docbook><p>{PLAIN}</p>",
    "a page that is quoted in plain text": CalledPlain(ELEMENTS),
    "a page of WET": PlainText(ELEMENTS),
    "text whose page was HTML": CalledHtml(f"x < y & z {PLAIN}"),
    "entities": f"Tea &amp; cake {PLAIN}",
    "nothing": "",
}

PIECES = ("<", "<!--", "-->", "<?xml", "?>", "<p", ">", "</p>", "<html", " ", "\n", "a", "<!doctype html")


@pytest.mark.parametrize("scheme", ["simhash", "minhash"])
def test_an_article_has_one_fingerprint_as_page_fragment_and_text(scheme: str) -> None:
    made = scheme_for(load(None, [f"fingerprint.scheme={scheme}"], {}))
    pages = [BLOCKS, ELEMENTS, ARTICLE, CalledHtml(ARTICLE), f"<div>{ARTICLE}</div>"]
    text, *fingerprints = made.fingerprint([PLAIN, *pages]).fingerprints
    for fingerprint in fingerprints:
        assert (fingerprint == text).all()


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_page_is_read_as_its_article(name: str) -> None:
    assert form_of(PAGES[name]) is Form.PAGE
    assert text_as_it_is(PAGES[name]) == article_text(PAGES[name])
    assert PARAGRAPHS[0] in text_as_it_is(PAGES[name])


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_a_text_stays_as_it_stands_to_the_last_character(name: str) -> None:
    assert form_of(TEXTS[name]) is Form.TEXT
    assert text_as_it_is(TEXTS[name]) is TEXTS[name]
    (text,) = Normaliser(Fingerprint()).without_markup([TEXTS[name]])
    assert text is TEXTS[name]


@pytest.mark.parametrize("begin", ["<p class=a>", "\n<h1>", "<!-- x --> <DIV>", "<ul>", "<blockquote>", "<a href='/'>"])
def test_a_fragment_is_read_as_what_can_be_seen_of_it(begin: str) -> None:
    name = begin.rpartition("<")[2].rstrip(">").split(" ")[0]
    fragment = f"{begin}{PLAIN} <b>at last</b></{name}>"
    assert form_of(fragment) is Form.FRAGMENT
    assert text_as_it_is(fragment) == visible_text(fragment)
    assert "<" not in text_as_it_is(fragment)


def test_a_record_is_believed_only_by_the_value_that_reads_each_text_as_what_it_is() -> None:
    for markup in ("none", "html", "html-main"):
        normaliser = Normaliser(Fingerprint(markup=markup))
        for text in (BLOCKS, ARTICLE, PLAIN):
            for called in (CalledPlain, CalledHtml):
                assert normaliser.without_markup([called(text)]) == normaliser.without_markup([text])


def test_the_stamp_outlives_a_release_of_the_parser_that_changes_no_page() -> None:
    assert Normaliser(Fingerprint()).stamp() == {"markup": "auto, format 3"}


@examples(200)
@given(st.lists(st.sampled_from(PIECES)))
def test_any_text_has_a_form_and_the_same_one_twice(parts: list[str]) -> None:
    text = "".join(parts)
    assert form_of(text) is form_of(text)
    assert isinstance(text_as_it_is(text), str)


@pytest.mark.parametrize("piece", ["<!--", "<!-- -->", "<?", "<?a?>", " ", "<p", "</", "<!-- --"])
def test_it_takes_time_as_the_text_is_long(piece: str) -> None:
    took = []
    for count in (50_000, 200_000):
        text = piece * count + "<"
        begin = time.process_time()
        form_of(text)
        form_of(CalledHtml(text))
        took.append(time.process_time() - begin)
    assert took[1] < 10 * took[0] + 0.3
