"""Templates are told with what they kept and what was lost before them, against what was decided row by row."""

from pathlib import Path

import numpy as np
import pytest

from deploy.made_up_site import MadeUp, admitted, site
from index.entry import Decisions, Source, Verdict
from index.index import Index
from index.tools import Template, templates_of
from streamer.fingerprint.scheme import parameters_for, scheme_for
from streamer.settings.settings import Settings

SCHEME = scheme_for(Settings())
PARAMETERS = parameters_for(Settings(), SCHEME.stamp())
SOURCE = Source("made-up", 0)


def opened(directory: Path) -> Index:
    return Index.open(directory, PARAMETERS, map_bytes_max=2**30)


def admit(index: Index, crawled: MadeUp, begin: int) -> list[Decisions]:
    """Decide made-up documents, whose ids are their offsets."""
    return list(admitted(index, SCHEME.fingerprint(crawled.texts), begin=begin, at_once=64))


def told(template: Template) -> tuple[list[int], list[int]]:
    """Offsets of the pages that were dropped, and of those that were kept."""
    pages = template.dropped_pages, template.kept_pages
    assert all(
        page.id == str(page.position.offset) and page.position.source == SOURCE for each in pages for page in each
    )
    dropped, kept = ([page.position.offset for page in each] for each in pages)
    return dropped, kept


def test_a_template_tells_what_it_kept_and_all_that_was_lost_before_it_was_known(tmp_path: Path) -> None:
    crawled = site("en", 0.1, pages=60, copies=30)
    with opened(tmp_path) as index:
        assert templates_of(index, 10) == []
        decisions = admit(index, crawled, 100)
        seen: list[int] = []
        (template,) = templates_of(index, 10, seen.append)
    verdicts = np.concatenate([each.verdicts for each in decisions])
    kept = np.flatnonzero(verdicts == Verdict.TEMPLATE) + 100
    dropped = np.flatnonzero(verdicts[: kept[0] - 100] == Verdict.DUPLICATE) + 100
    assert template.head is not None
    assert template.head.position.offset == 100
    assert [head for each in decisions for head in each.templates] == ["100"]
    # What was dropped later is a copy.
    assert told(template) == (dropped[:16].tolist(), kept[:5].tolist())
    assert (template.dropped, template.kept) == (16, len(kept))
    assert template.own_share == pytest.approx(0.1, abs=0.03)
    assert template.documents >= 1 + 16 + len(kept)
    assert seen[-1] == len(crawled)


def test_the_largest_templates_are_told_and_forgotten_pages_are_gone(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        admit(index, site("en", 0.1, pages=30, copies=5, seed=1), 0)
        admit(index, site("zh", 0.1, pages=60, copies=5, seed=2), 100)
        first, second = templates_of(index, 10)
        assert templates_of(index, 1) == [first]
        assert first.documents > second.documents
        assert first.head is not None
        assert index.forget([first.head.id])
        again, _ = templates_of(index, 10)
        assert again.kept == first.kept
