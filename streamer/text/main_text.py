"""The article of an HTML page without what stands around it, by trafilatura: the only module that imports it.

It is not installed with the filter but by its extra `html`, and loaded at the first use.
"""

import importlib.metadata
import importlib.util
import logging

from streamer.errors import SettingsError

# What decides on the result: the extraction itself, and the parser below it.
_PACKAGES = ("trafilatura", "lxml")


def require() -> None:
    """Raise SettingsError unless trafilatura is installed."""
    if importlib.util.find_spec("trafilatura") is None:
        raise SettingsError(
            'fingerprint.markup: "html-main" needs the package trafilatura, which is not installed: '
            'pip install "neardup-streamer[html]"'
        )


def releases() -> str:
    """What the main text of a page depends on: equal names, equal texts."""
    return ", ".join(f"{package} {importlib.metadata.version(package)}" for package in _PACKAGES)


def main_text(page: str) -> str | None:
    """The main text of an HTML page, None where none is found: navigation, footers, comments and the like left out.

    A line for each block. It depends on nothing but the page. Lone surrogates must have been replaced.
    """
    from trafilatura import extract

    # A page without an article is nothing to be told of, and pages come by the million.
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    # Without its second opinions (`fast`): they choose between extractions by their lengths, so that one article in two
    # pages is told alike less often (151 of 160, not 159: bench.boilerplate), and take two thirds more time.
    return extract(page, fast=True, include_comments=False, deduplicate=False) or None
