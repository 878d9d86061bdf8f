"""Words of the page and the demo in each language: words.toml, and the sentences of wordings.toml."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

LANGUAGES = ("en", "zh")
PAGE_SECTIONS = ("page", "verdicts", "reasons", "sentences")


def language_of(locale: str) -> str:
    """Language of a locale or a language's name; English unless it is Chinese.

    >>> language_of("zh_CN.UTF-8"), language_of("C")
    ('zh', 'en')
    """
    return "zh" if locale.lower().startswith("zh") else "en"


@cache
def words(section: str, language: str) -> Mapping[str, str]:
    """Words in a section of words.toml, or `sentences` by "verdict.reason". Raises KeyError for an unknown one.

    >>> words("edits", "zh")["headline"]
    '换了标题'
    """
    return {key: each[language] for key, each in _sections()[section].items()}


def page_words() -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    """The page's words by language and section."""
    return {language: {section: words(section, language) for section in PAGE_SECTIONS} for language in LANGUAGES}


@cache
def wordings() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """The tables of wordings.toml by verdict and reason; each has its sentence by language."""
    return _read("wordings.toml")


@cache
def _sections() -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    tables = ((f"{verdict}.{reason}", table) for verdict, rest in wordings().items() for reason, table in rest.items())
    return {**_read("words.toml"), "sentences": {name: table["sentence"] for name, table in tables}}


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(files("streamer.explain").joinpath(name).read_text(encoding="utf-8"))
