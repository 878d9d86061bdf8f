"""The exact join: what it finds is what looking at all pairs finds, with the similarity of the definition."""

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from streamer.evaluation.join import SimilarPairs, similar_pairs, tokens, tokens_in_a_run
from tests.support.examples import examples

TEXTS = st.lists(st.lists(st.sampled_from(["桥", "灯", "光", "one", "two", "three ", "，"]), max_size=14), max_size=9)


def plain_set(text: str, run: int) -> set[tuple[str, ...]]:
    tokens = regex.findall(r"\p{Han}|[a-z]+", text)
    return {tuple(tokens[at : at + run]) for at in range(max(1, len(tokens) - run + 1))} if tokens else set()


def listed(pairs: SimilarPairs) -> list[tuple[int, int, float]]:
    columns = pairs.later.tolist(), pairs.earlier.tolist(), pairs.similarities.tolist()
    return list(zip(*columns, strict=True))


@examples(150)
@given(TEXTS, st.sampled_from([0.1, 0.3, 0.5, 0.6, 0.8, 1.0]), st.integers(1, 3))
def test_the_join_finds_what_comparing_all_pairs_finds(parts: list[list[str]], floor: float, run: int) -> None:
    texts = [" ".join(part) for part in parts]
    sets = [plain_set(text, run) for text in texts]
    expected = []
    for later, one in enumerate(sets):
        for earlier, other in enumerate(sets[:later]):
            if one and other and len(one & other) / len(one | other) >= floor - 1e-9:
                expected.append((later, earlier, len(one & other) / len(one | other)))
    assert listed(similar_pairs(texts, floor, run)) == expected


def test_the_nearest_is_the_most_similar_and_of_equal_ones_the_earliest() -> None:
    texts = ["a b c d", "a b c d", "a b c x", "a b c d", "other words here altogether"]
    largest, rows = similar_pairs(texts, 0.1, 2).nearest(len(texts))
    assert rows.tolist() == [-1, 0, 0, 0, -1]
    assert largest.tolist() == [0, 1, 0.5, 1, 0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("read_file(42)", ["read_file", "42"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("长江 flows, 2x", ["长", "江", "flows", "2x"]),
        ("ひらがな서울ไทย", list("ひらがな서울ไทย")),
    ],
)
def test_a_token_is_a_word_with_its_marks_and_joints_or_a_character_of_a_script_without_blanks(
    text: str, expected: list[str]
) -> None:
    assert tokens(text) == expected


@pytest.mark.parametrize(("texts", "run"), [(["桥的灯光 one"] * 3, 5), (["a bridge 桥"], 3), ([], 3), (["สวัสดี"], 5)])
def test_scripts_without_blanks_are_cut_into_longer_runs(texts: list[str], run: int) -> None:
    assert tokens_in_a_run(texts) == run
