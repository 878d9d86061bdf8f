"""No host can launder copies of an article by posting variants of it."""

from dataclasses import replace

import numpy as np
import pytest

from deploy.made_up_site import LANGUAGES, Language, Reprints, others, site
from deploy.reprint_runs import by_filter, copies_kept
from tests.support.tiers import first_of


def laundered(language: Language) -> Reprints:
    """An article, 60 variants of it on one other host, and late copies on 40 hosts, each in a frame of its own (5 %)."""
    article, *variants = site(language, 0.1, pages=61, copies=0).texts
    frames = others(language, 80, words=13).texts
    copies = [f"{frames[2 * number]} {article} {frames[2 * number + 1]}" for number in range(40)]
    hosts = ["news.example", *["spam.example"] * len(variants), *(f"late-{number}.example" for number in range(40))]
    numbers = [0, *[-1] * len(variants), *[0] * len(copies)]
    return Reprints([article, *variants, *copies], hosts, np.array(numbers))


@pytest.mark.parametrize("language", first_of(*LANGUAGES))
def test_late_copies_are_dropped_though_a_host_posted_variants_of_the_article(language: Language) -> None:
    crawled = laundered(language)
    (kept,) = copies_kept(crawled, by_filter(crawled)).tolist()
    assert kept <= 2
    # The safeguard is off under one host: frames are learnt by host.
    one_host = replace(crawled, hosts=["one"] * len(crawled.hosts))
    (kept,) = copies_kept(one_host, by_filter(one_host)).tolist()
    assert kept > 10
