"""Words of mixed alphabets are written in one of them; words of one alphabet stay as they are."""

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from index import errors
from streamer.fingerprint.scheme import parameters_for, scheme_for
from streamer.settings.settings import load
from streamer.text.characters import fold, normalise
from streamer.text.look_alikes import ALPHABETS, look_alikes
from tests.support.examples import examples

LETTERS = "abcehikmopstxyzäé" + "абвгеиёнопрстухыі" + "αβγεικμνορτυχάώ"
MIXED_TEXT = st.text(st.sampled_from(LETTERS + LETTERS.upper() + "1'- \u0301中ก"), max_size=14)


def look_of(letter: str, alphabet: int) -> str:
    forms = look_alikes().forms[alphabet]
    return chr(forms[ord(letter)]) if ord(letter) < len(forms) and forms[ord(letter)] else ""


def alphabet_of(letter: str) -> int:
    return next(
        (at for at, name in enumerate(ALPHABETS) if regex.match(rf"(?=\p{{L}})\p{{Script={name}}}", letter)), -1
    )


def forms_of(word: str) -> dict[int, str]:
    """The word in each alphabet in which all its letters have a look-alike."""
    of, found = [alphabet_of(letter) for letter in word], {}
    for alphabet in range(len(ALPHABETS)):
        looks = [look_of(letter, alphabet) if own >= 0 else letter for letter, own in zip(word, of, strict=True)]
        if all(
            look and (look == letter or not regex.match(r"\p{M}", following))
            for letter, look, following in zip(word, looks, f"{word[1:]} ", strict=False)
        ):
            found[alphabet] = "".join(looks)
    return found


def step_3(text: str) -> str:
    """Step 3 of `normalise`, for a text in the form of the steps before."""
    words = regex.split(r"([^\p{L}\p{N}\p{M}]|[中ก])", text)
    mixed_met = False
    for whole in (False, True):
        before: set[int] = set()
        for place, word in enumerate(words):
            of = [alphabet_of(letter) for letter in word]
            own, forms = set(of) - {-1}, forms_of(word)
            if len(own) > 1 and forms and not whole:
                words[place] = forms[min(forms, key=lambda alphabet: (-of.count(alphabet), alphabet))]
                own, mixed_met = {alphabet_of(letter) for letter in words[place]} - {-1}, True
            if whole and mixed_met and len(own) == len(before) == 1 and before <= forms.keys():
                words[place], own = forms[next(iter(before))], before
            before = own or before
    return "".join(words)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("hеllо", "hello"),
        ("НELLО", "hello"),
        ("раураl", "paypal"),
        ("BITСОIN", "bitcoin"),
        ("пoле", "поле"),
        ("Hет", "нет"),
        ("ёлкa", "ёлка"),
        ("Ελλάδa", "ελλάδα"),
        ("中国сhina的", "中国china的"),
        ("hеllо, ѕее а сор", "hello, see a cop"),
        ("аpple, а оса", "apple, a oca"),
        ("он ест аpple; их оса", "он ест apple; их оса"),
    ],
)
def test_a_word_with_letters_of_another_alphabet_is_read_as_it_looks(written: str, read: str) -> None:
    assert normalise(written) == read


@pytest.mark.parametrize(
    "word", ["поле", "сор", "оса", "νέα", "ρατα", "5μm", "hello", "naïve", "nжf", "hе\u0302llo", "see оса"]
)
def test_a_word_of_one_alphabet_or_with_a_letter_that_has_no_look_alike_stays(word: str) -> None:
    assert normalise(word) == word


@examples(500)
@given(st.lists(MIXED_TEXT, max_size=4))
def test_the_compiled_loop_agrees_with_the_definition_and_a_second_time_changes_nothing(texts: list[str]) -> None:
    characters = fold(texts)
    for row, text in enumerate(texts):
        # Words apart have the form of the steps before: only words of one alphabet go through the loop here.
        before = "".join(normalise(letter) or letter for letter in text) if "\u0301" not in text else None
        form = characters.text(row)
        assert normalise(form) == form
        if before is not None:
            assert form == " ".join(step_3(before).split())


@pytest.mark.parametrize("scheme", ["minhash", "simhash"])
def test_look_alikes_in_a_copy_are_no_difference_by_either_scheme(scheme: str) -> None:
    text = "The ferry to the islands leaves the harbour every morning at seven, and comes back in the evening. " * 5
    disguised = text.replace("e", "е").replace("a", "а")
    one, other = (
        scheme_for(load(overrides=[f"fingerprint.scheme={scheme}"])).fingerprint([text, disguised]).fingerprints
    )
    assert (one == other).all()


def test_an_index_of_the_other_normal_form_is_refused() -> None:
    stamp = scheme_for(load()).stamp()
    other = {**stamp, "normalisation": stamp["normalisation"][:-1] + "x"}
    with pytest.raises(errors.ParametersDifferError, match="normalisation"):
        parameters_for(load(), other).deciding(parameters_for(load(), stamp), "index")
