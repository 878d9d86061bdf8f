from contextlib import suppress

import pytest

from index.entry import Verdict
from streamer.records.reason import MINOR, Reason, label, labels, verdict_of


def labels_of(reason: Reason) -> list[tuple[str, str]]:
    """(verdict, reason) labels that a reason can have."""
    found = []
    for verdict in Verdict:
        # What earlier programs could keep has labels of other reasons.
        if reason in MINOR.values() and verdict is not Verdict.DUPLICATE:
            continue
        with suppress(KeyError):
            found.append((verdict.label, label(verdict, reason)))
    return found


def test_every_reason_has_a_label_and_no_label_has_two_reasons() -> None:
    assert {reason.name: len(labels_of(reason)) for reason in Reason} == {
        reason.name: {
            Reason.ORDINARY: 8,
            Reason.SHORT_TEXT: 3,
            Reason.CRAFTED: 8,
        }.get(reason, 1)
        for reason in Reason
    }
    listed = [each for reason in Reason for each in labels_of(reason)]
    assert len(listed) == len(set(listed)) == 39
    # What a person gives back is no decision of the service, and no metric.
    assert set(listed) == {*labels(), ("given-back", "given-back")}


def test_labels_tell_their_verdict_and_only_its_reason_tells_a_page_of_a_template_or_new_text() -> None:
    for verdict in Verdict:
        for reason in Reason:
            with suppress(KeyError):
                assert verdict_of(verdict.label, label(verdict, reason)) is verdict
    assert verdict_of("unique", "crafted-template") is Verdict.TEMPLATE
    assert verdict_of("extends", "new-text") is verdict_of("extends", "crafted-new-text") is Verdict.ADDS
    assert verdict_of("unique", "of a later version") is Verdict.UNIQUE
    assert verdict_of("duplicate", "template") is Verdict.DUPLICATE
    assert verdict_of("template", "template") is None


def test_a_dead_letter_is_labelled_by_the_name_of_its_reason() -> None:
    dead = [reason for reason in Reason if reason >= Reason.TOMBSTONE]
    assert [labels_of(reason) for reason in dead] == [
        [("dead-letter", reason.name.lower().replace("_", "-"))] for reason in dead
    ]


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
    assert label(Verdict.DUPLICATE, Reason.SAME_TEXT) == "same-text"


def test_a_pair_that_cannot_occur_has_no_label() -> None:
    with pytest.raises(KeyError):
        label(Verdict.UNIQUE, Reason.NOT_JSON)
    with pytest.raises(KeyError):
        label(Verdict.DEAD_LETTER, Reason.ORDINARY)


def test_a_reason_that_an_earlier_program_gave_has_the_label_of_its_text() -> None:
    assert [Reason(number) for number in (3, 4, 9)] == [Reason.ORDINARY, Reason.SHORT_TEXT, Reason.CRAFTED]
    minor = Reason.UPDATE_MINOR, Reason.UPDATE_MINOR_SHORT_TEXT
    assert [label(Verdict.UNIQUE, reason) for reason in minor] == ["no-match", "short-text-new"]
    assert [label(Verdict.UPDATE, reason) for reason in minor] == ["recrawled", "short-text-recrawled"]
    with pytest.raises(ValueError, match="14 is not a valid Reason"):
        Reason(14)


def test_the_numbers_in_the_journal_never_change_their_meaning() -> None:
    assert {reason.name: reason.value for reason in Reason} == {
        "ORDINARY": 0,
        "NO_FEATURES": 1,
        "SHORT_TEXT": 2,
        "UPDATE_MINOR": 5,
        "UPDATE_MINOR_SHORT_TEXT": 6,
        "SAME_TEXT": 7,
        "CRAFTED": 8,
        "OTHER_TEXT": 10,
        "SHARED_ID": 11,
        "RETURNED": 12,
        "RETURNED_SHORT_TEXT": 13,
        "TOMBSTONE": 16,
        "TOO_LARGE": 17,
        "NOT_UTF_8": 18,
        "NOT_JSON": 19,
        "NESTED_TOO_DEEP": 20,
        "NO_TEXT": 21,
        "TEXT_NOT_STRING": 22,
        "UNREADABLE": 23,
        "POISON": 24,
        "NOT_OF_REGISTRY": 25,
        "SCHEMA_UNKNOWN": 26,
        "NOT_AVRO": 27,
    }
