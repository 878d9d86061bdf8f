"""Docstrings, comments and pages are in the field's English: words that do not occur, and rates that only fall."""

import ast
import io
import re
import tokenize
from collections import Counter
from functools import cache
from pathlib import Path

from tests.support.paths import ROOT

PACKAGES = ("index", "streamer")
GENERATED = ("settings.md", "settings-methods.md", "metrics.md")

ABSENT = ("anew", "beside", "nobody", "stands in", "told", "tells", "whoever")
"""Words that the prose does without."""

ABSENT_IN_PAGES = (*ABSENT, "found", "of which", "somebody")

PER_1000_WORDS_MAX = {"of": 23, "where": 0.26}
PER_1000_WORDS_OF_PAGES_MAX = {"of": 29, "where": 0.43}
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


def page_prose(source: str) -> str:
    """A page without blocks of code, names between backquotes, and targets of links."""
    text = re.sub(r"^```.*?^```$", "", source, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`]*`|\]\([^)]*\)|\b\w*_\w*\b", " ", text).lower()


@cache
def modules() -> dict[Path, str]:
    """The prose of every module."""
    paths = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return {path: prose(path.read_text()) for path in paths}


@cache
def pages() -> dict[Path, str]:
    """The prose of every page in English that is written by hand."""
    paths = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    by_hand = sorted(path for path in paths if path.name not in GENERATED and not is_chinese(path))
    return {path: page_prose(path.read_text()) for path in by_hand}


def is_chinese(path: Path) -> bool:
    """Pages in Chinese have tests/docs/test_chinese.py."""
    return path.parent == ROOT / "docs" / "zh" or path.name == "README.zh-CN.md"


def places_of(words: tuple[str, ...], texts: dict[Path, str]) -> dict[str, list[str]]:
    """The words of a list that occur in a file, by file."""
    pattern = re.compile(rf"\b(?:{'|'.join(words)})\b")
    found = {str(path.relative_to(ROOT)): pattern.findall(text) for path, text in texts.items()}
    return {name: words for name, words in found.items() if words}


def rates_above(ceilings: dict[str, float], texts: dict[Path, str]) -> dict[str, float]:
    counts = Counter(word for text in texts.values() for word in re.findall(r"\w+", text))
    rates = {word: 1_000 * counts[word] / counts.total() for word in ceilings}
    return {word: rate for word, rate in rates.items() if rate > ceilings[word]}


def test_no_word_of_the_list_occurs_in_a_module() -> None:
    assert places_of(ABSENT, modules()) == {}


def test_no_word_of_the_list_occurs_on_a_page() -> None:
    assert places_of(ABSENT_IN_PAGES, pages()) == {}


def test_rates_stay_below_their_ceilings() -> None:
    assert rates_above(PER_1000_WORDS_MAX, modules()) == {}
    assert rates_above(PER_1000_WORDS_OF_PAGES_MAX, pages()) == {}


def test_prose_is_docstrings_and_comments_alone() -> None:
    source = 'told = "whoever"  # a comment\n\ndef f(anew):\n    """The doc, of `beside`."""\n'
    assert set(re.findall(r"\w+", prose(source))) == {"a", "comment", "the", "doc", "of"}


def test_the_prose_of_a_page_has_no_code_and_no_targets_of_links() -> None:
    source = "```sh\ntold\n```\n\nA [page](anew.md) of `beside`.\n"
    assert set(re.findall(r"\w+", page_prose(source))) == {"a", "page", "of"}


def test_pages_in_chinese_do_not_count_and_all_others_do() -> None:
    names = {str(path.relative_to(ROOT)) for path in pages()}
    assert {"README.md", "docs/tutorial.md", "docs/decisions/README.md"} <= names
    assert [name for name in names if "zh" in name] == []
