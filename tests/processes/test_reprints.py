"""One article on many hosts is one story: over files, and over Kafka with two workers; and no host can launder its copies."""

from dataclasses import replace

import numpy as np
import pytest

from deploy.made_up_site import LANGUAGES, Language, Reprints, others, reprints, site
from deploy.reprint_runs import by_filter, copies_kept
from tests.support.tiers import first_of

FRAMES = (0.02, 0.05, 0.08)
ARTICLES, HOSTS = 12, 30


def many_reprints() -> Reprints:
    """Articles in both languages and in frames of all sizes, each on hosts of its own, in random order."""
    texts: list[str] = []
    hosts: list[str] = []
    articles: list[int] = []
    for number, (language, share) in enumerate((language, share) for language in LANGUAGES for share in FRAMES):
        crawled = reprints(language, share, articles=ARTICLES, hosts=HOSTS, seed=number)
        texts += crawled.texts
        hosts += [f"{number}.{host}" for host in crawled.hosts]
        articles += (crawled.articles + number * ARTICLES).tolist()
    order = np.random.default_rng(1).permutation(len(texts)).tolist()
    return Reprints([texts[at] for at in order], [hosts[at] for at in order], np.array(articles)[order])


def without_hosts(crawled: Reprints) -> Reprints:
    """The same under one host for each crawl: the safeguard is off, for frames are learnt by host."""
    return replace(crawled, hosts=[host.split(".")[0] if host[0].isdigit() else "one" for host in crawled.hosts])


def laundered(language: Language) -> Reprints:
    """An article, 60 variants of it on one other host, and late copies on 40 hosts, each in a frame of its own (5 %)."""
    article, *variants = site(language, 0.1, pages=61, copies=0).texts
    frames = others(language, 80, words=13).texts
    copies = [f"{frames[2 * number]} {article} {frames[2 * number + 1]}" for number in range(40)]
    hosts = ["news.example", *["spam.example"] * len(variants), *(f"late-{number}.example" for number in range(40))]
    numbers = [0, *[-1] * len(variants), *[0] * len(copies)]
    return Reprints([article, *variants, *copies], hosts, np.array(numbers))


def test_one_article_on_many_hosts_is_one_story_over_files() -> None:
    crawled = many_reprints()
    kept = copies_kept(crawled, by_filter(crawled))
    assert kept.min() == 1
    assert kept.mean() <= 1.1
    in_large_frames = reprints("en", 0.6, articles=ARTICLES, hosts=HOSTS)
    assert copies_kept(in_large_frames, by_filter(in_large_frames)).mean() > 1.5


@pytest.mark.parametrize("language", first_of(*LANGUAGES))
def test_late_copies_are_dropped_though_a_host_posted_variants_of_the_article(language: Language) -> None:
    crawled = laundered(language)
    (kept,) = copies_kept(crawled, by_filter(crawled)).tolist()
    assert kept <= 2
    (kept,) = copies_kept(crawled, by_filter(without_hosts(crawled))).tolist()
    assert kept > 10
