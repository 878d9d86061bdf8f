"""The demo's documents: the same everywhere, distinct articles, and edits that do what they say."""

import re
from collections import Counter
from itertools import combinations

import pytest
import xxhash

from streamer.demo.documents import COUNT_MIN, EDITS, documents, label_of
from streamer.text.characters import normalise
from tests.support.news import ARTICLES, COPIES, DOCUMENTS, LINES, UNTOUCHED, parsed


def shingles(language: str, text: str) -> frozenset[object]:
    if language == "zh":
        characters = re.sub(r"\W", "", normalise(text))
        return frozenset(characters[at : at + 5] for at in range(len(characters) - 4))
    words = re.findall(r"\w+", normalise(text))
    return frozenset(tuple(words[at : at + 3]) for at in range(len(words) - 2))


def jaccard(one: frozenset[object], other: frozenset[object]) -> float:
    return len(one & other) / len(one | other)


def test_the_documents_are_the_same_on_every_machine() -> None:
    assert xxhash.xxh3_64_hexdigest(b"\n".join(LINES)) == "31d65380c1b459f3"
    assert list(documents(COUNT_MIN, seed=7)) == list(documents(COUNT_MIN, seed=7)) != list(documents(COUNT_MIN))


@pytest.mark.parametrize("count", [COUNT_MIN, 149, 600, 1_001])
def test_the_documents_are_as_many_as_asked_for_and_have_distinct_ids(count: int) -> None:
    lines = list(documents(count))
    assert len(lines) == count
    ids = re.findall(rb'^{"id": ?"([^"]+)"', b"\n".join(lines), re.MULTILINE)
    assert len(ids) == len(set(ids)) >= count - count // 75
    assert all(b"\n" not in line for line in lines)


def test_too_few_documents_to_show_every_verdict_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 100"):
        list(documents(COUNT_MIN - 1))


def test_two_of_three_articles_are_chinese_and_all_have_the_length_of_news() -> None:
    chinese = [text for key, text in ARTICLES.items() if key.startswith("zh")]
    english = [text for key, text in ARTICLES.items() if key.startswith("en")]
    assert len(chinese) + len(english) == len(ARTICLES) > 100
    assert len(chinese) // 2 <= len(english) + 1 <= len(chinese) // 2 + 2
    assert all(150 <= len(text) <= 600 for text in chinese)
    assert all(80 <= len(text.split()) <= 250 for text in english)


def test_every_blank_is_filled_and_every_choice_is_made() -> None:
    for key in ARTICLES | COPIES:
        assert not re.search(r"[\[\]{}|]", DOCUMENTS[key]["title"] + DOCUMENTS[key]["text"])


@pytest.mark.parametrize(("count", "seed"), [(600, 2026), (400, 1), (400, 2)])
def test_no_two_articles_are_near_duplicates(count: int, seed: int) -> None:
    found = parsed(list(documents(count, seed)))
    sets = {
        key: shingles(key[:2], value["text"])
        for key, value in found.items()
        if (label := label_of(key)) and not label.edit
    }
    assert len(sets) > count // 2
    pairs = (pair for pair in combinations(sets, 2) if pair[0][:2] == pair[1][:2])
    assert max(jaccard(sets[one], sets[other]) for one, other in pairs) < 0.5


def test_copies_are_near_duplicates_of_their_article() -> None:
    likeness = {
        key: jaccard(shingles(key[:2], copy["text"]), shingles(key[:2], ARTICLES[label_of(key).article]))
        for key, copy in COPIES.items()
    }
    assert min(likeness.values()) > 0.6


def test_a_copy_comes_after_its_article_and_every_edit_occurs_equally_often() -> None:
    order = list(DOCUMENTS)
    assert all(order.index(label_of(key).article) < order.index(key) for key in COPIES)
    counts = Counter(label_of(key).edit for key in COPIES)
    assert set(counts) == set(EDITS)
    assert set(counts.values()) == {30}


def test_every_edit_changes_only_what_it_names() -> None:
    for key, copy in COPIES.items():
        article, edit = label_of(key)
        before, after = ARTICLES[article], copy["text"]
        assert (normalise(before) == normalise(after)) == (edit in UNTOUCHED), key
        assert (before == after) == (edit in {"same", "headline"}), key
        assert (DOCUMENTS[article]["title"] == copy["title"]) == (edit != "headline"), key
        if edit == "figure":
            assert sum(one != other for one, other in zip(before, after, strict=True)) == 1
        elif edit in {"typo", "moved"}:
            assert sorted(before) == sorted(after)
        elif edit == "framed":
            assert before in after
        elif edit == "dropped":
            assert len(after) < len(before)
