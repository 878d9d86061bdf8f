"""How a document stands to its original, against exact sets of shingles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index import NO_DISTANCE, Decisions, Verdict, minhash
from index.kernels.judge import new_share
from streamer.evaluation.scores import pair_distances
from streamer.fingerprint.minhash.minhash import MinHasher
from streamer.fingerprint.scheme import parameters_for
from streamer.records.reason import Reason
from streamer.records.relation import RELATIONS, Measure, new_shares, relation
from streamer.settings.settings import Minhash, Settings

members = st.sets(st.integers(0, 40), min_size=1)


@given(members, members)
def test_the_new_share_of_exact_sets_is_exact(original: set[int], document: set[int]) -> None:
    similarity = len(original & document) / len(original | document)
    (share,) = new_shares(np.array([similarity]), np.array([len(document) / len(original)])).tolist()
    assert share == pytest.approx(len(document - original) / len(document), abs=1e-9)


@given(st.floats(0, 1), st.floats(0.001, 65))
def test_the_new_share_is_a_share_and_never_below_the_growth(similarity: float, ratio: float) -> None:
    (share,) = new_shares(np.array([similarity]), np.array([ratio])).tolist()
    assert max(0.0, 1 - 1 / ratio) <= share <= 1


def test_the_estimate_from_signatures_and_letters_is_near_the_exact_share() -> None:
    rng, settings = np.random.default_rng(30), Minhash()
    vocabulary = np.array([f"word{number}" for number in rng.integers(10**6, size=2_000)])
    hasher, parameters = MinHasher(settings), parameters_for(Settings(), {})
    errors = []
    for cut, added in rng.integers(0, 60, (300, 2)).tolist():
        words = rng.choice(vocabulary, 400)
        original = " ".join(words[: 400 - cut])
        document = " ".join([*words[added // 2 :], *rng.choice(vocabulary, added)])
        prints = hasher.fingerprint([original, document])
        assert prints.lengths is not None
        distances = pair_distances(prints.rows(slice(0, 1)), prints.rows(slice(1, 2)), parameters)
        ratio = int(prints.lengths[1]) / int(prints.lengths[0])
        (estimate,) = new_shares(minhash.similarities_of(distances.astype(np.int16)), np.array([ratio])).tolist()
        known, own = (_runs(text, settings.shingle_characters_narrow) for text in (original, document))
        errors.append(estimate - len(own - known) / len(own))
    assert abs(np.mean(errors)) <= 0.01
    assert np.std(errors) <= 0.03


def _runs(letters: str, size: int) -> set[str]:
    return {letters[at : at + size] for at in range(len(letters) - size + 1)}


@pytest.mark.parametrize(
    ("verdict", "reason", "length", "new", "name"),
    [
        (Verdict.DUPLICATE, Reason.SAME_TEXT, 1.0, 0.0, "same"),
        (Verdict.DUPLICATE, Reason.SHORT_TEXT, 1.0, 0.0, "same"),
        # Equal signatures are no equal texts.
        (Verdict.DUPLICATE, Reason.ORDINARY, 1.0, 0.0, "edited"),
        (Verdict.UPDATE, Reason.SHORT_TEXT, 1.0, None, "edited"),
        (Verdict.EXTENDS, Reason.ORDINARY, 1.1, 0.1, "longer"),
        (Verdict.UPDATE, Reason.ORDINARY, 1.101, 0.1, "longer"),
        (Verdict.UPDATE, Reason.ORDINARY, 1.1, 0.1, "edited"),
        (Verdict.DUPLICATE, Reason.ORDINARY, 0.909, 0.1, "contained"),
        (Verdict.DUPLICATE, Reason.ORDINARY, 0.909, 0.101, "shorter"),
        (Verdict.DUPLICATE, Reason.ORDINARY, 0.909, None, "shorter"),
        (Verdict.DUPLICATE, Reason.ORDINARY, 0.91, 0.0, "edited"),
        (Verdict.DUPLICATE, Reason.SAME_TEXT, None, 0.0, None),
    ],
)
def test_a_relation_follows_from_lengths_and_new_text(
    verdict: Verdict, reason: Reason, length: float | None, new: float | None, name: str | None
) -> None:
    assert relation(verdict, reason, length, new, longer_min=0.1) == name
    assert name is None or name in RELATIONS


def test_columns_are_rounded_and_empty_if_unknown() -> None:
    none, count = np.zeros(3, np.uint8), 3
    decisions = Decisions(
        np.full(count, Verdict.DUPLICATE, np.uint8),
        none,
        np.array([0, NO_DISTANCE, 0], np.int16),
        np.zeros(count, np.uint64),
        [None] * count,
        [None] * count,
        none.astype(np.bool_),
        np.zeros(count, np.int64),
        ratios=np.array([1_100, 1_100, 0], np.uint16),
    )
    assert Measure(by_similarity=True, of_shingles=True).columns(decisions) == ([1.1, 1.1, None], [0.091, None, None])
    assert Measure(by_similarity=True).columns(decisions) == ([1.1, 1.1, None], [None] * 3)


@given(distance=st.integers(0, minhash.DISTANCE_UNITS), lengths=st.tuples(st.integers(1, 10**6), st.integers(1, 10**6)))
def test_the_index_bounds_the_share_that_outputs_tell(distance: int, lengths: tuple[int, int]) -> None:
    """`index.new_max` compares what `neardup.new` says, though the index knows units and lengths."""
    length, root_length = lengths
    similarities = minhash.similarities_of(np.array([distance], np.int16))
    (told,) = new_shares(similarities, np.array([length / root_length])).tolist()
    compared = new_share(np.int64(distance), np.int64(length), np.int64(root_length), minhash.DISTANCE_UNITS)
    assert compared / minhash.DISTANCE_UNITS == pytest.approx(told, abs=1e-9)
