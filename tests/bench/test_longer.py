"""The bench of longer versions: its counts over made-up streams, and the error that it finds."""

import gzip
import lzma
from pathlib import Path

import numpy as np
import orjson
import pytest

from bench.accuracy import Stream
from bench.longer import SHORTER, TEASERS, Outcome, beginning, outcome
from deploy.made_up_site import LANGUAGES, reprints
from index import Longer
from tests.support.jaccard import jaccard

TENTH = Longer(1_000)
ARTICLES, ALONE = 24, 8


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stream with articles in two languages, each followed by an edited copy, which has up to a fifth of new text;
    and some articles alone."""
    folder = tmp_path_factory.mktemp("made-up")
    rng, texts, pairs = np.random.default_rng(4), [], []
    for language in LANGUAGES:
        articles = reprints(language, 0, articles=2 * ARTICLES, hosts=1, words=300).texts
        for one, other in zip(articles[::2], articles[1::2], strict=True):
            new, cut = (int(share * len(one)) for share in rng.uniform(0, 0.2, 2))
            pairs.append((len(texts), len(texts) + 1, jaccard(one, one[cut:] + other[:new], 5)))
            texts += [one, one[cut:] + other[:new]]
    texts += reprints("en", 0, articles=ALONE, hosts=1, seed=9).texts
    rows = [{"id": str(row), "title": "", "text": text} for row, text in enumerate(texts)]
    (folder / "docs.jsonl.xz").write_bytes(lzma.compress(b"\n".join(map(orjson.dumps, rows))))
    lines = ["#every pair with Jaccard >= 0.1", "id1\tid2\tjaccard", *(f"{a}\t{b}\t{j:.4f}" for a, b, j in pairs)]
    (folder / "pairs.tsv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    lines = ["#max_j 0.1", "id\tmax_j\tbest_earlier_id", *(f"{b}\t{j:.4f}\t{a}" for a, b, j in pairs)]
    (folder / "stream_truth.tsv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    return folder


@pytest.fixture(scope="module")
def found(made_up: Path) -> Outcome:
    return outcome(Stream(made_up), TENTH, ALONE)


def test_the_estimate_of_new_text_is_within_its_bounds(found: Outcome) -> None:
    mean, deviation, worst = found.new
    assert found.dropped[1] >= ARTICLES
    assert abs(mean) <= 0.01
    assert 0 < deviation <= 0.03
    assert worst < 0.15


def test_what_the_rule_passes_is_no_drop_and_answers_the_truth(found: Outcome) -> None:
    (before, after), (extends, _, _) = found.dropped, found.extends
    assert before - after == extends > 0
    assert found.growth is not None
    assert found.growth >= 0.1
    assert found.false == (0, 0)
    assert found.missed[1] <= found.missed[0]


def test_teasers_cost_articles_without_the_rule_alone(made_up: Path, found: Outcome) -> None:
    articles, without, passing = found.teased
    assert (articles, passing) == (ALONE, 0)
    assert without >= ALONE // 2
    assert found.shortened["95%"] == found.shortened["90%"] == (ALONE, ALONE)
    # A limit that no text exceeds changes nothing.
    unlimited = outcome(Stream(made_up), Longer(100_000), ALONE)
    assert unlimited.teased == (articles, without, without)
    assert unlimited.extends == (0, 0, 0)
    assert [*found.shortened] == [f"{share:.0%}" for share in SHORTER]


def test_a_beginning_has_its_share_of_the_letters() -> None:
    for share in TEASERS:
        text = beginning("a, b; c. d! e? f: g h i j", share)
        assert sum(map(str.isalnum, text)) == 10 * share
        assert text[-1].isalnum()
