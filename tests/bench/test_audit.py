"""The audit's bench: all pairs by plain sets, and one run over made-up stories."""

import json
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from bench import audit
from bench.audit import exact, exactly, figures, sampled
from streamer.audit.estimates import Estimate, Limits
from streamer.audit.store import Audited

LIMITS = Limits(0.7, 0.5)


def drawn(count: int) -> list[Audited]:
    """Sets of features by chance, each a changed copy of an earlier one; every third is dropped."""
    chance = np.random.default_rng(3)
    sets: list[np.ndarray] = []
    documents = []
    for number in range(count):
        like = int(chance.integers(number)) if number else 0
        base = sets[like] if sets else np.zeros(0, np.uint32)
        kept = base[chance.random(len(base)) < chance.uniform(0.6, 1)]
        sets.append(np.unique([*kept, *chance.integers(0, 9_000, int(chance.integers(1, 40)))]).astype(np.uint32))
        is_dropped = number % 3 == 2
        documents.append(
            Audited(
                *(
                    f"{number}",
                    f"{number}",
                    "",
                    "",
                    0,
                    sets[-1],
                    is_dropped,
                    is_dropped,
                    f"{like}" if is_dropped else "",
                )
            )
        )
    return documents


def test_all_pairs_are_those_of_plain_sets() -> None:
    documents = drawn(60)
    sets = [set(each.features.tolist()) for each in documents]
    for number, judged in enumerate(exactly(documents)):
        own = sets[number]
        before = [(len(own & sets[each]) / len(own | sets[each]), documents[each]) for each in range(number)]
        assert judged.near == pytest.approx(max((value for value, _ in before), default=0))
        assert judged.kept == pytest.approx(max((value for value, other in before if not other.dropped), default=0))
        original = next((value for value, other in before if other.place == documents[number].original), None)
        assert judged.original == (original if original is None else pytest.approx(original))


def test_a_sample_of_every_document_says_of_recall_and_precision_what_exact_counting_says() -> None:
    documents = drawn(400)
    truth = exact(exactly(documents), LIMITS)
    assert 0 < truth["recall"] < 1
    shares = {name: np.mean(of) for name, of in estimated(documents).items()}
    assert shares == {name: pytest.approx(share, abs=0.03) for name, share in truth.items()}


def estimated(documents: Sequence[Audited]) -> dict[str, list[float]]:
    seen = [sampled(documents, 1, seed) for seed in range(8)]
    recalls = [audit.recall(each, LIMITS.similarity_min).estimate for each in seen]
    precisions = [audit.precision(each, LIMITS).estimate for each in seen]
    return {
        "recall": [each for each in recalls if each is not None],
        "precision": [each for each in precisions if each is not None],
    }


def test_figures_are_the_mean_the_deviation_and_the_share_of_intervals_that_cover() -> None:
    estimates = [Estimate(0.8, 0.7, 0.9, 40), Estimate(0.6, 0.5, 0.69, 60), Estimate(None, None, None, 2)]
    assert figures(estimates, 0.75) == ["0.7000", "0.1000", "0.50", "2", "34"]
    assert figures(estimates[2:], 0.75) == ["-", "-", "-", "0", "2"]


def test_a_run_shows_each_chance_with_both_measures(tmp_path: Path) -> None:
    chance, lines = random.Random(4), []
    for story in range(50):
        words = [f"{chance.randrange(16**5):05x}" for _ in range(90)]
        for copy in range(3):
            words[chance.randrange(90)] = f"changed{copy}"
            lines.append(json.dumps({"id": f"{story}-{copy}", "text": " ".join(words)}))
    file = tmp_path / "stories.jsonl"
    file.write_text("\n".join(lines))
    done = CliRunner().invoke(
        audit.main,
        [str(file), "--seeds", "2", "--one-in", "1,64", "--set", "decode.host_scope=none"],
        catch_exceptions=False,
    )
    assert done.exit_code == 0
    rows = [line.split() for line in done.stdout.splitlines() if line.split()[1:2] in (["recall"], ["precision"])]
    assert [row[:2] for row in rows] == [[one_in, name] for one_in in ("1", "64") for name in ("recall", "precision")]
    assert [row[5:7] for row in rows] == [["1.00", "2"]] * 2 + [["-", "0"]] * 2
    assert "150 documents" in done.stdout
