import pytest

from index.entry import Verdict
from streamer.records.reason import Reason, label, labels


def test_every_reason_stands_on_at_least_one_label() -> None:
    texts = {text for _, text in labels()}

    assert len(labels()) == len(set(labels())) == 12
    assert all(
        any(name in texts for name in (reason.name.lower().replace("_", "-"), "no-match", "short-text-new"))
        for reason in Reason
    )


def test_labels_are_lower_case_words_joined_by_hyphens() -> None:
    for verdict, text in labels():
        assert verdict == verdict.lower()
        assert text.replace("-", "").replace("8", "").isalpha()
        assert text == text.lower()


def test_an_ordinary_document_is_explained_by_its_verdict() -> None:
    assert label(Verdict.UNIQUE, Reason.ORDINARY) == "no-match"
    assert label(Verdict.DUPLICATE, Reason.ORDINARY) == "similar"
    assert label(Verdict.UNIQUE, Reason.SHORT_TEXT) == "short-text-new"
    assert label(Verdict.DUPLICATE, Reason.SHORT_TEXT) == "short-text-same"


def test_a_pair_that_cannot_occur_has_no_label() -> None:
    with pytest.raises(KeyError):
        label(Verdict.UNIQUE, Reason.NOT_JSON)
    with pytest.raises(KeyError):
        label(Verdict.DEAD_LETTER, Reason.ORDINARY)


def test_the_numbers_in_the_journal_never_change_their_meaning() -> None:
    assert {reason.name: reason.value for reason in Reason} == {
        "ORDINARY": 0,
        "NO_FEATURES": 1,
        "SHORT_TEXT": 2,
        "TOMBSTONE": 16,
        "TOO_LARGE": 17,
        "NOT_UTF_8": 18,
        "NOT_JSON": 19,
        "NESTED_TOO_DEEP": 20,
        "NO_TEXT": 21,
        "TEXT_NOT_STRING": 22,
    }
