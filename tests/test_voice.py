"""Docstrings and comments are in the field's English: words that do not occur, and rates that only fall."""

import ast
import io
import re
import tokenize
from collections import Counter
from pathlib import Path

import pytest

from tests.support.paths import ROOT

PACKAGES = ("index", "streamer")

ABSENT = ("anew", "beside", "nobody", "stands in", "told", "tells", "whoever")
"""Words that the prose does without."""

PER_1000_WORDS_MAX = {"of": 29, "where": 1}
"""Ceilings; they only fall."""


def prose(source: str) -> str:
    """Docstrings and comments of a module, without names of code: those between backquotes, and argument names of tables."""
    docstrings = [
        node.value.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    comments = [
        token.string[1:]
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    ]
    words = re.sub(r"`[^`]*`|\b\w*_\w*\b", " ", "\n".join([*docstrings, *comments]))
    return re.sub(r"^ *(>>>.*|\w+(, \w+)*  +)", " ", words, flags=re.MULTILINE).lower()


def modules() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


@pytest.mark.parametrize("word", ABSENT)
def test_a_word_of_the_list_occurs_nowhere(word: str) -> None:
    pattern = re.compile(rf"\b{word}\b")
    assert [str(path.relative_to(ROOT)) for path in modules() if pattern.search(prose(path.read_text()))] == []


def test_rates_stay_below_their_ceilings() -> None:
    counts = Counter(word for path in modules() for word in re.findall(r"\w+", prose(path.read_text())))
    rates = {word: 1_000 * counts[word] / counts.total() for word in PER_1000_WORDS_MAX}
    assert {word: rate for word, rate in rates.items() if rate > PER_1000_WORDS_MAX[word]} == {}


def test_prose_is_docstrings_and_comments_alone() -> None:
    source = 'told = "whoever"  # a comment\n\ndef f(anew):\n    """The doc, of `beside`."""\n'
    assert set(re.findall(r"\w+", prose(source))) == {"a", "comment", "the", "doc", "of"}
