"""No text takes quadratic time: what each hostile form costs grows about as fast as its length."""

import time
import unicodedata
from collections.abc import Callable

import pytest

from bench import fuzz
from streamer.explain.side_by_side import side_by_side
from streamer.fingerprint.scheme import scheme_for
from streamer.text.normalisation import article_text, page_text, visible_text

CHARACTERS = 32_000
FACTOR = 8
EXPONENT_MAX = 1.6
HARMLESS_SECONDS = 1.0
"""Less time for FACTOR times CHARACTERS says nothing of growth."""


def seconds(work: Callable[[str], object], text: str) -> float:
    # Clients that other tests left behind have threads of their own.
    begin = time.thread_time()
    work(text)
    return time.thread_time() - begin


def grows_too_fast(work: Callable[[str], object], make: Callable[[int], str]) -> bool:
    for _ in range(3):
        long = seconds(work, make(FACTOR * CHARACTERS))
        if long < HARMLESS_SECONDS or long < FACTOR**EXPONENT_MAX * seconds(work, make(CHARACTERS)):
            return False
    return True


def fingerprint(scheme: str) -> Callable[[str], object]:
    made = scheme_for(fuzz.settings_of("none", scheme))
    return lambda text: made.fingerprint([text])


def compare(text: str) -> object:
    return side_by_side(text, text[: len(text) // 2] + "x" + text[len(text) // 2 :])


WORKS = {
    "minhash": fingerprint("minhash"),
    "simhash": fingerprint("simhash"),
    "visible_text": visible_text,
    "article_text": article_text,
    "page_text": page_text,
    "side_by_side": compare,
}


MARKUP = [form for form in fuzz.HOSTILE if "<" in "".join(form) or "&" in "".join(form)]
PAIRS = [
    (name, form)
    for name in WORKS
    for form in fuzz.HOSTILE
    if (form in MARKUP) == (name in ("visible_text", "article_text", "page_text"))
]


@pytest.mark.parametrize(("name", "form"), PAIRS, ids=lambda part: ascii("".join(part))[:40])
def test_no_hostile_text_takes_quadratic_time(name: str, form: tuple[str, ...]) -> None:
    WORKS[name](fuzz.hostile(form, 1_000))
    assert not grows_too_fast(WORKS[name], lambda size: fuzz.hostile(form, size))


def test_quadratic_time_is_noticed() -> None:
    def marks(size: int) -> str:
        return fuzz.hostile(fuzz.HOSTILE[0], size // 4)

    assert grows_too_fast(lambda text: unicodedata.normalize("NFD", text), marks)
