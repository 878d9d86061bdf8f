"""Letters that readers take for the same: one form for all that they write, and two for all that they tell apart."""

import shutil
import subprocess
import time
import unicodedata

import pytest

from streamer.fingerprint.scheme import scheme_for
from streamer.settings.settings import load
from streamer.text.characters import normalise
from streamer.text.same_letters import as_same_letters, same_letters

RADICALS = (
    "use Unicode::UCD qw(prop_invmap); my ($begins, $values) = prop_invmap('EqUIdeo');"
    "for my $i (0 .. $#$begins - 1) { next unless $values->[$i] =~ /^[0-9]+$/ && $values->[$i];"
    "for my $c ($begins->[$i] .. $begins->[$i + 1] - 1) { print $c, ' ', $values->[$i], qq(\\n); } }"
)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("⻓⻔⻅⻢⻋⻦⻩⻣", "长门见马车鸟黄骨"),
        ("⻑⾨⾒⾺", "長門見馬"),
        ("㇐", "一"),
        ("یک کتاب", "يك كتاب"),
        ("ﯾﮏ ﮐﺘﺎﺏ", "يك كتاب"),
        ("یٔ", "ئ"),
        ("خانهٔ خانۀ ہم ۂ ۃ ٱ", "خانهٔ خانهٔ هم هٔ ة ا"),
        ("علـــي", "علي"),
        ("مُحَمَّدٌ هٰذَا", "محمد هذا"),
        ("\ufe76ﺏ\ufe77", "ب"),
        ("۱۴۰۴", "١٤٠٤"),
        ("שָׁלוֹם בְּרֵאשִׁ֖ית", "שלום בראשית"),
        ("\ufb2a\ufb4b װײ", "שו וויי"),
        ("Țară și oraș, k\u0326", "ţară şi oraş, ķ"),
        ("за\u0301мок По\u0300 а\u0316\u0301", "замок по а\u0316"),
        ("s\u0336t\u0336r\u0335u\u0332c\u0338k\u20e0", "struck"),
        ("1\ufe0f\u20e3", "1"),
        ("İstanbul", "istanbul"),
        ("i\u0307\u0301", "í"),
        ("ന്\u200d ണ്\u200d ത്\u200d", "ന് ണ് ത്"),
        ("ൻ ൺ ർ ൽ ൾ ൿ", "ന് ണ് ര് ല് ള് ക്"),
        ("ৎ ত্\u200d", "ত্ ত্"),
        ("сім’я сімʼя сім´я сім‘я сім′я", "сім'я " * 5),
        ("Hawaiʻi צה׳ל Qurʼan", "hawai'i צה'ל qur'an"),
        ("ʜᴇʟʟᴏ ꜱʀɪ 🅷🅴🅻🅻🅾 🅑", "hello sri hello b"),
        ("so\xadft ﾊﾝｶｸ ＡＢＣ", "soft ハンカク abc"),
    ],
)
def test_what_readers_take_for_the_same_letter_is_one(written: str, read: str) -> None:
    assert normalise(written) == read.strip() == normalise(read)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("все", "всё"),
        ("мои", "мой"),
        ("же", "жё"),
        ("с ней, и", "с ней, ѝ"),
        ("ќ", "к"),
        ("على", "علي"),
        ("أن", "ان"),
        ("رأي", "راي"),
        ("آن", "ان"),
        ("بهی", "بھی"),
        ("مدرسة", "مدرسه"),
        ("kız", "kiz"),
        ("șase", "sase"),
        ("résumé", "resume"),
        ("hòa", "hoà"),
        ("a ≠ b", "a = b"),
        ("がき", "かき"),
        ("हिंदी", "हदी"),
        ("กา", "ก"),
        ("ab 'c", "ab'c"),
        ("run`ls", "run'ls"),
    ],
)
def test_what_readers_tell_apart_stays_apart(one: str, other: str) -> None:
    assert normalise(one) != normalise(other)


@pytest.mark.skipif(shutil.which("perl") is None, reason="Perl has its own copy of Unicode's property")
def test_radicals_are_the_ideographs_that_unicode_names() -> None:
    done = subprocess.run(["perl", "-e", RADICALS], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("this Perl comes without the module Unicode::UCD")
    named = {int(radical): chr(int(ideograph)) for radical, ideograph in map(str.split, done.stdout.splitlines())}
    assert len(named) > 300
    wrong = {hex(radical): named[radical] for radical in named if normalise(chr(radical)) != normalise(named[radical])}
    assert wrong == {}


def test_no_form_is_a_character_that_has_another_form() -> None:
    assert [form for form in same_letters().values() if as_same_letters(form) != form] == []


@pytest.mark.parametrize("scheme", ["minhash", "simhash"])
@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("کتاب‌های فارسی یک میلیون خواننده در کشور دارند و دیگر کسی نمی‌داند که کجا هستند. ", {"ی": "ي", "ک": "ك"}),
        (
            "Şedinţa a fost amânată până mâine, a spus preşedintele oraşului în faţa presei locale. ",
            {"ş": "ș", "ţ": "ț"},
        ),
        (
            "长江上的门户见证了马车与飞鸟的黄金时代,风中的龙鱼也在其中。",
            {"长": "⻓", "门": "⻔", "见": "⻅", "马": "⻢", "风": "⻛"},
        ),
        ("العربية لغة جميلة يتحدث بها الناس في بلاد كثيرة من المحيط إلى الخليج. ", {"ب": "بَ", "ل": "لْ", "ي": "يـ"}),
        ("Пароход уходит из гавани каждое утро и возвращается вечером домой. ", {"а": "а\u0301", "о": "о\u0301"}),
    ],
)
def test_a_copy_in_the_other_letters_is_no_other_text(scheme: str, text: str, change: dict[str, str]) -> None:
    long = text * 6
    copy = long.translate(str.maketrans(change))
    assert copy != long
    one, other = scheme_for(load(overrides=[f"fingerprint.scheme={scheme}"])).fingerprint([long, copy]).fingerprints
    assert (one == other).all()


def test_accents_without_end_take_linear_time() -> None:
    """The definition reads letters with marks; a search that begins anew at each mark would take seconds."""
    for letter in ("а", "i", "a", "\u0438\u0306"):
        begin = time.process_time()
        form = normalise((letter + "\u0301\u0307\u0338" * 50_000) + "\u0301" * 50_000)
        assert time.process_time() - begin < 5
        assert "\u0338" not in form


def test_every_letter_of_a_decorated_alphabet_has_a_name() -> None:
    forms = [form for form in same_letters().values() if len(form) == 1 and form.isascii() and form.isalpha()]
    assert {*forms} == {*map(chr, range(ord("a"), ord("z") + 1))}
    assert unicodedata.name("🅰").endswith("LETTER A")
