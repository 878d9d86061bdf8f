"""An HTML page's article, by trafilatura: the only importer."""

import importlib.metadata
import logging

from streamer.packages import require_package

# Both change results: the extraction, and the parser that it uses.
_PACKAGES = ("trafilatura", "lxml")


def require(markup: str = "html-main") -> None:
    """Raise SettingsError unless trafilatura can be imported; with "auto", unless it is there.

    To import it is a tenth of a start, and most streams that "auto" reads have no page.
    """
    require_package(f'fingerprint.markup: "{markup}"', "html", by_name=markup == "auto")


def releases() -> str:
    """The releases that the main text depends on. Equal releases give equal texts."""
    return ", ".join(f"{package} {importlib.metadata.version(package)}" for package in _PACKAGES)


def main_text(page: str) -> str | None:
    """An HTML page's main text, a line for each block, without navigation, footers and comments; None if there is none.

    The page must hold no lone surrogates.
    """
    from trafilatura import extract

    # trafilatura logs every page without an article, and pages come by the million.
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    # `fast` skips the fallback extractions, which choose by length and take two thirds more time. With them, one article
    # in two pages gives equal texts less often (151 of 160 instead of 159: bench.boilerplate).
    return extract(page, fast=True, include_comments=False, deduplicate=False) or None
