"""Text as arrays: normal forms for a batch of texts, and every character's script rule.

A batch is one array of code points, and tables replace `unicodedata`. Only texts whose characters act upon one another go through
the definition itself (`_fold_by_definition`).
"""

import sys
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import regex
import xxhash

from index.kernels.jit import cache_folder
from streamer.text import character_kernels
from streamer.text.character_kernels import COUNT_BITS, INTERACTS, MIXES, NONSTARTER, Tables
from streamer.text.kept_tables import Arrays, kept_tables
from streamer.text.look_alikes import look_alikes
from streamer.text.same_letters import as_same_letters, same_letters, without_accents
from streamer.text.unicode_forms import unicode_form

CODE_POINTS = 0x110000
_TABLED = (*range(0x40000), *range(0xE0000, 0xE1000))
"""The planes that have characters with properties; all other code points are unassigned or private."""

_INVISIBLE = regex.compile(r"[\p{Cf}\p{Default_Ignorable_Code_Point}]+")

_IOTA_BELOW = "\u0345"
"""The one mark that folds to a letter. Only the definition knows the order of marks around it."""


class Rule(IntEnum):
    """A character's role in words.

    >>> [Rule(rule).name for rule in rule_table()[[*map(ord, "a!'杭")]]]
    ['WORD', 'SEPARATOR', 'APOSTROPHE', 'HAN']
    """

    SEPARATOR = 0
    """In no word: punctuation, symbols, white space, emoji."""
    WORD = 1
    """Letters, marks and digits in scripts with spaces: a run is a word."""
    HAN = 2
    """Han characters in the segmenter's dictionary, which splits runs into words."""
    IDEOGRAPH = 3
    """Every other ideograph: a word by itself."""
    UNSPACED = 4
    """Letters in scripts without spaces: runs become overlapping shingles."""
    MARK = 5
    """Part of the WORD or UNSPACED character before it, else a separator."""
    APOSTROPHE = 6
    """Part of a word between two WORD characters, else a separator."""


UNSPACED_SCRIPTS = (
    r"[\p{scx=Hiragana}\p{scx=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}"
    r"\p{Script=Tai_Le}\p{Script=New_Tai_Lue}\p{Script=Tai_Tham}\p{Script=Tai_Viet}\p{Script=Ahom}"
    r"\p{Script=Javanese}\p{Script=Balinese}]"
)
"""Matches one character in scripts without spaces between words, except ideographs."""

# Later rules override earlier ones. jieba looks up U+4E00 to U+9FD5 in its dictionary.
_RULES = (
    (Rule.WORD, r"[\p{L}\p{N}]"),
    (Rule.UNSPACED, r"(?=\p{L})" + UNSPACED_SCRIPTS),
    (Rule.IDEOGRAPH, r"[[\p{Script=Han}\p{Ideographic}\p{Script=Yi}]&&[\p{L}\p{N}]]"),
    (Rule.HAN, "[\u4e00-\u9fd5]"),
    (Rule.MARK, r"\p{M}"),
    (Rule.APOSTROPHE, "'"),
)


@dataclass(frozen=True, slots=True)
class Characters:
    """Code points for n texts, text after text.

    codepoints  uint32 [characters]
    bounds      int64 [n + 1], text i is codepoints[bounds[i]:bounds[i + 1]]

    >>> fold(["Ｃafé", "NOIR"]).bounds.tolist()
    [0, 4, 8]
    """

    codepoints: npt.NDArray[np.uint32]
    bounds: npt.NDArray[np.int64]

    def text(self, number: int) -> str:
        """Normal form of text `number`, white space collapsed."""
        begin, end = self.bounds[number : number + 2]
        return _collapse(decode(self.codepoints[begin:end]))


def normalise(text: str) -> str:
    r"""A text's normal form; idempotent.

    1. Invisible code points go: category Cf, and Unicode's default-ignorable ones (variation selectors, fillers).
    2. `as_same_letters`; then NFKD, casefold, `as_same_letters`, NFKC, casefold, NFKC: the stable order (The Unicode Standard,
       D146); then `without_accents`, and NFKC.
    3. A word in mixed alphabets (Latin, Cyrillic, Greek, Armenian, Cherokee) is written in one of them, if all its letters have
       a look-alike there (UTS 39): the one with most letters, else Latin. In a text with such words, a one-alphabet word takes
       the previous word's alphabet, if all its letters have a look-alike there. All other texts stay as they are.
    4. Runs of white space become one space, with none at either end.
    Lone surrogates are kept.

    >>> normalise("Ｆree \u200b Wi-Fi")
    'free wi-fi'
    """
    return fold([text]).text(0)


def fold(texts: Sequence[str]) -> Characters:
    """Normal forms for a batch, white space not collapsed: no feature depends on it."""
    tables = _tables()
    codepoints, bounds = _join(texts)
    interacting, mixing, total = character_kernels.survey(codepoints, bounds, tables)
    if interacting.any():
        stable = list(texts)
        for number in np.flatnonzero(interacting).tolist():
            stable[number] = _fold_by_definition(stable[number])
        codepoints, bounds = _join(stable)
        _, mixing, total = character_kernels.survey(codepoints, bounds, tables)
    codepoints, bounds = character_kernels.write(codepoints, bounds, tables, total)
    if mixing.any():
        character_kernels.unmix(codepoints, bounds, mixing, tables)
    return Characters(codepoints, bounds)


def letters(characters: Characters) -> npt.NDArray[np.uint32]:
    """Each text's letters, marks and digits: uint32 [n]. Character shingles have these alone.

    >>> letters(fold(["It's 9 o'clock!", "..."])).tolist()
    [10, 0]
    """
    letterless = np.uint8(Rule.SEPARATOR), np.uint8(Rule.APOSTROPHE)
    return character_kernels.letters(characters.codepoints, characters.bounds, rule_table(), letterless)


def rule_table() -> npt.NDArray[np.uint8]:
    """Every code point's `Rule`: uint8 [CODE_POINTS]; do not write."""
    return _tables().rules


@cache
def tables_hash() -> str:
    """Hexadecimal hash over all tables. Equal hashes mean equal normal forms and words."""
    tables = _tables()
    digest = xxhash.xxh3_128()
    for table in (tables.folded, tables.behaviours, tables.pool, tables.classes, tables.rules, tables.forms):
        digest.update(np.ascontiguousarray(table).astype(table.dtype.newbyteorder("<"), copy=False).tobytes())
    return digest.hexdigest()


def decode(codepoints: npt.NDArray[np.uint32]) -> str:
    """Code points -> string."""
    return codepoints.astype("<u4", copy=False).tobytes().decode("utf-32-le", "surrogatepass")


def ragged(starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Ranges starts[i] to starts[i] + lengths[i] - 1, one after the other: int64 [total length].

    >>> ragged(np.array([5, 0]), np.array([2, 3]))
    array([5, 6, 0, 1, 2])
    """
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(total)


def _join(texts: Sequence[str]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    codepoints = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), "<u4").astype(np.uint32, copy=False)
    bounds = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)), out=bounds[1:])
    return codepoints, bounds


def _fold_by_definition(text: str) -> str:
    """Steps 1 and 2 in `normalise` for one text."""
    decomposed = unicode_form("NFKD", as_same_letters(_INVISIBLE.sub("", text)))
    composed = unicode_form("NFKC", as_same_letters(decomposed.casefold()))
    form = unicode_form("NFKC", composed.casefold())
    return form if (plain := without_accents(form)) == form else unicode_form("NFKC", plain)


def _collapse(text: str) -> str:
    return " ".join(text.split())


@cache
def _tables() -> Tables:
    return Tables(**kept("characters", _make_tables))


def kept(name: str, make: Callable[[], Arrays], *sources: str) -> Arrays:
    """Tables of characters, made by the first process with these libraries, this package, and further source files."""
    versions = unicodedata.unidata_version, sys.version, regex.__version__, version("confusable_homoglyphs")
    # All sources of the package, as for machine code: a list of those that count would miss the next one.
    made_of = (*versions, *sorted(Path(__file__).parent.glob("*.py")), *map(Path, sources))
    return kept_tables(cache_folder(character_kernels.write), name, made_of, make)


def _make_tables() -> dict[str, npt.NDArray[Any]]:
    """The tables, from `unicodedata` and `regex` (0.3 s)."""
    everything = list(map(chr, _TABLED))
    joined = "".join(everything)
    decompositions = list(map(unicodedata.decomposition, everything))
    invisible = set("".join(_INVISIBLE.findall(joined)))
    invisible.update(same_letters())
    changing = [
        character
        for character, decomposition in zip(everything, decompositions, strict=True)
        if decomposition or character != character.casefold() or character in invisible
    ]
    # One call for all that may change: a line feed composes with nothing, so it keeps neighbours apart.
    forms = dict(zip(changing, _fold_by_definition("\n".join(changing)).split("\n"), strict=True))
    alphabets, letter_forms = look_alikes()
    mixing = (alphabets > 1).nonzero()[0]
    may_mix = frozenset(map(chr, mixing.tolist()))
    folded = np.arange(CODE_POINTS, dtype=np.uint32)
    behaviours = np.ones(CODE_POINTS, np.uint8)
    pool_starts = np.zeros(CODE_POINTS, np.int64)
    classes = np.zeros(CODE_POINTS, np.uint8)
    pool: list[int] = []
    composing = _composing(decompositions)
    behaviours[mixing] |= MIXES
    # Nearly all characters are their own form and act upon nothing: they keep the tables' initial values.
    acting = composing.union(filter(unicodedata.combining, everything))
    for character in sorted(acting.union(changing)):
        codepoint, form = ord(character), forms.get(character, character)
        if form == character and character not in acting:
            continue
        combining = unicodedata.combining(form) if len(form) == 1 else 0
        classes[codepoint] = combining
        if (
            not composing.isdisjoint(form)
            or (len(form) > 1 and any(map(unicodedata.combining, form)))
            or _IOTA_BELOW in unicodedata.normalize("NFKD", character)
        ):
            behaviours[codepoint] = 1 | INTERACTS
        elif len(form) == 1:
            folded[codepoint] = ord(form)
            behaviours[codepoint] = 1 | (NONSTARTER if combining else 0)
        else:
            assert len(form) <= COUNT_BITS
            behaviours[codepoint] = len(form)
            pool_starts[codepoint] = len(pool)
            pool.extend(map(ord, form))
        if not may_mix.isdisjoint(form):
            behaviours[codepoint] |= MIXES
    rules = _rule_table(joined)
    inside = np.where(rules == Rule.WORD, 1, np.where(rules == Rule.MARK, 2, 0)).astype(np.uint8)
    pool_array = np.array(pool, np.uint32)
    tables = Tables(behaviours, folded, pool_array, pool_starts, classes, rules, inside, alphabets, letter_forms)
    return tables._asdict()


def _composing(decompositions: list[str]) -> frozenset[str]:
    """Characters that may compose with the one before them (Unicode's NFKC_Quick_Check = Maybe)."""
    pairs = (parts.split() for parts in decompositions if parts and not parts.startswith("<"))
    seconds = {chr(int(pair[1], 16)) for pair in pairs if len(pair) == 2}
    return frozenset(seconds | set(map(chr, [*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)])))


def _rule_table(joined: str) -> npt.NDArray[np.uint8]:
    table = np.full(CODE_POINTS, Rule.SEPARATOR, np.uint8)
    numbers = np.array(_TABLED)
    for rule, pattern in _RULES:
        for match in regex.finditer(f"(?:{pattern})+", joined, regex.VERSION1):
            table[numbers[match.start() : match.end()]] = rule
    return table
