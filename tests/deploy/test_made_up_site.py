"""The made-up site is what it says, and an index without templates loses it."""

from pathlib import Path

import numpy as np
import pytest

from deploy.made_up_site import LANGUAGES, Kept, Language, admitted, amid, kept, others, site
from index.entry import Verdict
from index.index import Index
from streamer.fingerprint.scheme import parameters_for, scheme_for
from streamer.settings.settings import Settings


@pytest.mark.parametrize("language", LANGUAGES)
def test_pages_share_all_but_their_own_words_and_copies_differ_from_theirs_in_a_few(language: Language) -> None:
    crawled = site(language, 0.1, pages=5, copies=5, words=100)
    assert crawled.texts == site(language, 0.1, pages=5, copies=5, words=100).texts
    if language == "en":
        words = np.array([text.split() for text in crawled.texts])
        differing = (words[:, None] != words[None]).sum(axis=2)
        same = crawled.pages[:, None] == crawled.pages[None]
        assert differing[same].max() <= 3
        assert 9 <= np.median(differing[~same]) <= 16


def test_what_is_delivered_once_is_kept_and_what_is_delivered_twice_is_not_found() -> None:
    pages = np.array([0, 0, 1, 1, 2, 2, 3, -1])
    dropped = np.array([0, 0, 0, 1, 1, 1, 0, 1], np.bool_)
    assert kept(pages, dropped) == Kept(pages=4, kept=3, copies=3, matched=2)


@pytest.mark.parametrize(("templates", "least", "most"), [(True, 190, 200), (False, 1, 5)])
def test_a_site_is_kept_where_templates_are_learnt_and_lost_where_they_are_not(
    tmp_path: Path, templates: bool, least: int, most: int
) -> None:
    settings = Settings.model_validate({"index": {"templates": templates}})
    scheme = scheme_for(settings)
    documents = amid(site("en", 0.1, pages=200, copies=80), others("en", 300))
    with Index.open(tmp_path, parameters_for(settings, scheme.stamp()), map_bytes_max=2**30) as index:
        hosts = ["site" if of_site else None for of_site in documents.of_site]
        decisions = admitted(index, scheme.fingerprint(documents.texts), hosts=hosts)
        dropped = np.concatenate([each.verdicts for each in decisions]) == Verdict.DUPLICATE
    found = kept(documents.pages, dropped)
    assert least <= found.kept <= most
    assert found.matched == found.copies == 80
    assert np.count_nonzero(dropped[~documents.of_site]) == 300 // 6 - 1


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("own_share", [0.05, 0.1])
def test_a_known_host_with_a_new_design_keeps_its_pages(tmp_path: Path, language: Language, own_share: float) -> None:
    """The second page of the new design is mostly template, and still no version of the first."""
    scheme = scheme_for(Settings())
    ordinary = site(language, 0.7, pages=100, copies=0, seed=5).texts
    redesigned = site(language, own_share, pages=150, copies=0, seed=6).texts
    prints = scheme.fingerprint(ordinary + redesigned)
    with Index.open(tmp_path, parameters_for(Settings(), scheme.stamp()), map_bytes_max=2**30) as index:
        verdicts = np.concatenate([each.verdicts for each in admitted(index, prints, host="site")])
    dropped = verdicts == Verdict.DUPLICATE
    assert not dropped[:100].any()
    assert np.count_nonzero(dropped[100:]) <= 14
