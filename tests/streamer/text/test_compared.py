"""The compared form: marks, accents and long strings against a plain definition, and by schemes."""

import base64
import random
import re
import unicodedata

import numpy as np
import pytest
import regex
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from index.entry import Kind
from streamer.evaluation.scores import pairs_flagged
from streamer.fingerprint.fingerprints import Fingerprints, Scheme
from streamer.fingerprint.scheme import parameters_for, scheme_for
from streamer.settings.settings import Settings, load
from streamer.text.characters import fold, normalise
from streamer.text.compared import DRAWN, KEPT, compared
from tests.support.examples import examples

SCHEMES = ("minhash", "simhash")
WORDS = {
    "English": "harbour quay ferry council tide lantern rope vessel morning captain cargo bridge storm island signal anchor "
    "letter market window evening garden river station teacher village mountain season library weather journey",
    "Chinese": "港口 渡船 议会 潮水 灯笼 绳索 船只 清晨 船长 货物 桥梁 风暴 岛屿 信号 铁锚 书信 市场 窗户 夜晚 花园",
}


def article(seed: int, language: str, letters: int = 700) -> str:
    """A text of its own, of some so many letters."""
    draw, words, parts = random.Random(seed), WORDS[language].split(), [""]
    while sum(map(len, parts)) < letters:
        parts.append(draw.choice(words))
    return (" " if language == "English" else "").join(parts)


def image(seed: int, size: int = 6_000, *, wrapped: bool = False) -> str:
    """An inline image."""
    octets = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + random.Random(seed).randbytes(size)
    encode = base64.encodebytes if wrapped else base64.b64encode
    return f"data:image/png;base64,{encode(octets).decode().strip()}"


def flagged(scheme: str, ones: list[str], others: list[str]) -> int:
    """Pairs that an index with these settings calls near-duplicates."""
    settings = load(overrides=[f"fingerprint.scheme={scheme}"])
    hasher = scheme_for(settings)
    parameters = parameters_for(settings, hasher.stamp())
    return int(pairs_flagged(hasher.fingerprint(ones), hasher.fingerprint(others), parameters).sum())


# --- against the plain definition ------------------------------------------------------------------------------------


def plain_letters(text: str) -> str:
    """Steps 1 and 2, for Latin, Cyrillic, Han, kana and Devanagari."""
    written, bears = [], False
    for character in text:
        if regex.match(r"\p{M}", character):
            if bears and not "\u0300" <= character <= "\u036f":
                written.append(character)
            continue
        bears = bool(regex.match(r"\p{Devanagari}", character))
        is_accented = regex.match(r"[\p{Latin}\p{Cyrillic}]", character)
        written.append(unicodedata.normalize("NFD", character)[0] if is_accented else character)
    return "".join(written)


SIGNS = "+/=-_.~:?#@&%"


def is_long(string: str) -> bool:
    counted = sum(character.isalnum() for character in string)
    others = sum(not character.isalpha() for character in string)
    return counted > 40 and 16 * others >= len(string)


def drawn_from(strings: list[str]) -> str:
    number = xxhash.xxh3_64_intdigest("".join(strings).encode())
    letters = ""
    for _ in range(DRAWN):
        number, digit = divmod(number, 26)
        letters += chr(ord("a") + digit)
    return strings[0][:KEPT] + letters


def by_definition(text: str) -> str:
    parts = regex.findall(rf"[a-z0-9{regex.escape(SIGNS)}]+|[^a-z0-9{regex.escape(SIGNS)}]", plain_letters(text))
    written, place = [], 0
    while place < len(parts):
        string = parts[place]
        place += 1
        if not is_long(string):
            written.append(string)
            continue
        lines = [string]
        while regex.fullmatch(r"[a-z0-9+/=_-]+", string):
            following = place
            while following < len(parts) and parts[following] in " \n":
                following += 1
            joins = place < following < len(parts) and len(parts[following]) == len(string)
            if not joins or not is_long(parts[following]) or not regex.fullmatch(r"[a-z0-9+/=_-]+", parts[following]):
                break
            lines.append(parts[following])
            place = following + 1
        following = place
        while following < len(parts) and parts[following] in " \n":
            following += 1
        is_last = len(lines) > 1 and place < following < len(parts) and len(parts[following]) < len(string)
        if is_last and re.fullmatch(r"(?=.*[^a-z])[a-z0-9+/=_-]+", parts[following]):
            lines.append(parts[following])
            place = following + 1
        written.append(drawn_from(lines))
    return "".join(written)


PIECES = st.one_of(
    st.text("abcxyz01+/=-_.:?é йй漢か\u0323\u0301\u0336हिं \n,", max_size=12),
    st.sampled_from(
        [
            "a1b2c3d4" * 6,
            "a1b2c3d4" * 6 + "\n",
            "a1b2c3d4" * 6 + "\nab12==\n",
            "https://example.org/a/b",
            "abcdefgh" * 7,
            "x/y-" * 14,
        ]
    ),
)


@examples(60)
@given(st.lists(st.lists(PIECES, max_size=8).map("".join), max_size=4))
def test_the_compared_form_is_that_of_the_definition(texts: list[str]) -> None:
    found = compared(fold(texts))
    for number, text in enumerate(texts):
        expected = by_definition(normalise(text))
        assert found.text(number) == " ".join(expected.split())


# --- marks and accents -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("ḥ̣a̱ṛ̃b̤o̾ụr", "harbour"),
        ("h\u0336a\u0336r\u0336bour", "harbour"),
        ("h̷̢̛a̵͝ŕ̶b̸o̷ụ̴r̵", "harbour"),
        ("港\u0323口\u0336渡\u20dd", "港口渡"),
        ("か\u0323な\u0301カ\u3099", "かなガ"),
        ("항\u0323구", "항구"),
        ("х\u0323о\u0308д й ё ї", "ход и е і"),
        ("λό\u0323γος ᾳ", "λογοσ αι"),
        ("résumé naïve São Łódź đường øre", "resume naive sao lodz duong ore"),
        ("hòa hoà", "hoa hoa"),
        ("kız ȷ", "kiz j"),
        ("ɓɗƙ", "bdk"),
        ("a\u0e49b\u093c", "ab"),
        (". \u0323 1\u0323 \u0323x", ". 1 x"),
        ("हि\u0323ंदी", "हिंदी"),
        ("น้ำ\u0323", "น้ํา"),
        ("が ぱ ガ", "が ぱ ガ"),
        ("각", "각"),
    ],
)
def test_marks_and_accents_are_not_compared_and_vowel_signs_are(written: str, read: str) -> None:
    assert compared(fold([written])).text(0) == read


@pytest.mark.parametrize("language", sorted(WORDS))
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("mark", ["\u0336", "\u0323", "\u0301", "\u0308\u0331", "\u20dd", "\u0489"])
def test_a_mark_behind_every_letter_hides_no_copy(mark: str, scheme: str, language: str) -> None:
    texts = [article(seed, language) for seed in range(10)]
    copies = ["".join(letter + mark if letter != " " else " " for letter in text) for text in texts]
    assert flagged(scheme, texts, copies) == len(texts)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    "change",
    [
        {"a": "á", "e": "ê", "i": "ĩ", "o": "ö", "u": "ů"},
        {"i": "ı"},
        dict(zip("aceghlmnorstu", "ᴀᴄᴇɢʜʟᴍɴᴏʀꜱᴛᴜ", strict=True)),
        dict(zip("acehr", "🄰🄲🄴🄷🅁", strict=True)),
        dict(zip("acehr", "🇦🇨🇪🇭🇷", strict=True)),
        dict(zip("huonsgq", "հսօոѕցզ", strict=True)),
        {letter: letter.upper() for letter in "abcdefghijklmnopqrstuvwxyz"}
        | {"a": "Ꭺ", "e": "Ꭼ", "t": "Ꭲ", "r": "Ꭱ", "w": "Ꮃ", "h": "Ꮋ", "d": "Ꭰ"},
    ],
)
def test_letters_dressed_up_hide_no_copy(change: dict[str, str], scheme: str) -> None:
    texts = [article(seed, "English") for seed in range(10)]
    copies = [text.translate(str.maketrans(change)) for text in texts]
    assert all(copy != text for copy, text in zip(copies, texts, strict=True))
    assert flagged(scheme, texts, copies) == len(texts)


def test_texts_that_are_told_apart_by_accents_alone_keep_their_digests_and_short_ones_stay_unequal() -> None:
    hasher = scheme_for(Settings())
    long = "Le pêcheur a péché près de la côte, et le maire l'a félicité devant tout le village réuni. " * 3
    found = hasher.fingerprint([long, unaccented(long), "má", "ma"])
    assert found.digests is not None
    assert (found.fingerprints[0] == found.fingerprints[1]).all()
    assert found.digests[0, 0] != found.digests[1, 0]
    assert found.kinds[2:].tolist() == [Kind.EXACT] * 2
    assert (found.fingerprints[2] != found.fingerprints[3]).any()


def unaccented(text: str) -> str:
    return "".join(letter for letter in unicodedata.normalize("NFD", text) if not unicodedata.combining(letter))


# --- long strings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("language", sorted(WORDS))
@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_inline_image_makes_neither_other_texts_equal_nor_copies_unequal(
    scheme: str, language: str, wrapped: bool
) -> None:
    texts = [article(seed, language) for seed in range(40)]
    same = [f"{text}\n{image(1, wrapped=wrapped)}" for text in texts]
    assert flagged(scheme, same[:-1], same[1:]) == 0
    others = [f"{text}\n{image(seed + 2, 3_000 + 100 * seed, wrapped=wrapped)}" for seed, text in enumerate(texts)]
    # By SimHash a few words of a hundred may hide a copy, whatever they are.
    assert flagged(scheme, same, others) >= len(texts) - 2 * (scheme == "simhash")


@pytest.mark.parametrize(
    "strings",
    [
        [f"{random.Random(seed).randbytes(4_000).hex()}" for seed in range(10)],
        ["?".join(["https://example.org/story"] + [f"token={seed}{n}" for n in range(400)]) for seed in range(10)],
        ["".join(f"%{octet:02X}" for octet in random.Random(seed).randbytes(1_000)) for seed in range(10)],
        [base64.urlsafe_b64encode(random.Random(seed).randbytes(3_000)).decode() for seed in range(10)],
    ],
    ids=["hash", "link", "percent", "urlsafe"],
)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_other_strings_without_a_blank_count_as_little(scheme: str, strings: list[str]) -> None:
    texts = [article(seed, "English") for seed in range(10)]
    same = [f"{text} {strings[0]}" for text in texts]
    assert flagged(scheme, same[:-1], same[1:]) == 0
    found = flagged(scheme, same, [f"{text} {one}" for text, one in zip(texts, strings, strict=True)])
    assert found >= len(texts) // (1 if scheme == "minhash" else 2)


def test_pages_of_links_alone_stay_apart() -> None:
    pages = ["\n".join(f"https://www.example.org/archive/2019/{seed}{n}/a-story" for n in range(30)) for seed in "123"]
    assert flagged("minhash", pages[:-1], pages[1:]) == 0


def test_a_text_without_blanks_is_no_string() -> None:
    texts = [article(seed, "English") + "." for seed in range(10)]
    assert flagged("minhash", texts, [text.replace(" ", "") for text in texts]) == len(texts)


def test_another_image_is_another_text_of_the_page_and_of_the_same_length() -> None:
    hasher: Scheme = scheme_for(Settings())
    found: Fingerprints = hasher.fingerprint(
        [f"{article(1, 'English')} {image(seed, 1_000 * seed)}" for seed in (2, 9)]
    )
    assert found.digests is not None
    assert found.lengths is not None
    assert found.digests[0, 0] != found.digests[1, 0]
    # A picture's size makes no longer version.
    assert abs(int(found.lengths[0]) - int(found.lengths[1])) < 10


def test_an_empty_batch_has_an_empty_form() -> None:
    assert compared(fold([])).bounds.tolist() == [0]
    assert compared(fold(["", " "])).bounds.dtype == np.int64
