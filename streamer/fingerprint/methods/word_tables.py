"""Word lists and tables from files, each with a digest of its content.

Words are normalised like texts, so a table may use any case or width.
"""

import hashlib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
import numpy.typing as npt

from streamer.errors import SettingsError
from streamer.fingerprint.hashing import hash_text
from streamer.fingerprint.methods.weights import FACTOR_UNIT, fixed
from streamer.settings.named_files import read_named
from streamer.text import word_kernels
from streamer.text.segmentation import jieba_file

IDF_VERSION = 1
_IDF_HEAD = re.compile(r"# streamer idf (?P<version>\d+) documents (?P<documents>\d+) unknown (?P<unknown>\d+\.\d+)")
_WEIGHT_MAX = 100.0

MARKERS = "markers"
"""Name for the list with words and phrases that sum up or turn a text."""

PARTICLES = "particles"
"""Name for the list of words without a topic, which published methods leave out."""

Normalise = Callable[[Sequence[str]], list[str]]
"""Normalises every word in a list."""


@dataclass(frozen=True, slots=True)
class WordTable:
    """A whole number for each word, in a few bytes a word.

    keys    uint64 [words], XXH3 of the words, ascending
    edges   int32 [a power of two], edges[b] is the place of the first key whose high bits are b or more
    values  int64 [words + 1]; the last value is for unknown words
    digest  of the table's file

    >>> keys, edges = np.array([5, 9], np.uint64), np.array([0, 2], np.int32)
    >>> WordTable(keys, edges, np.array([10, 20, 1]), digest="").of(np.array([9, 7], np.uint64))
    array([20,  1])
    """

    keys: npt.NDArray[np.uint64]
    edges: npt.NDArray[np.int32]
    values: npt.NDArray[np.int64]
    digest: str

    def of(self, keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Numbers by the words' 64-bit XXH3: int64 [keys]."""
        # An unknown word has place -1, the index of the last value.
        return self.values[word_kernels.places_of(keys, self.keys, self.edges)]


def idf_table(source: str, normalise: Normalise) -> WordTable:
    """ln(|D| / |{d : t in d}|) by word t, in units of 1 / FACTOR_UNIT, from a frozen table. Raises SettingsError.

    source  "jieba": jieba's table for Chinese, `word value` a line; unknown words get the median of its values, as in jieba.
            Else the path of such a file, or of one made by `streamer idf build`, whose first line names the value for
            unknown words: ln |D|, as if in one document.

    If two words have one normal form, the smaller value counts.
    """
    content = jieba_file("analyse/idf.txt") if source == "jieba" else read_named("fingerprint.idf", Path(source))
    lines = _lines(content, source, "fingerprint.idf")
    head = _IDF_HEAD.fullmatch(lines[0][1]) if lines else None
    if head is not None and int(head["version"]) != IDF_VERSION:
        raise SettingsError(
            f"fingerprint.idf: {source} is of format version {head['version']}; this program knows version {IDF_VERSION}"
        )
    listed: list[str] = []
    values: list[float] = []
    for number, line in lines[1 if head else 0 :]:
        word, _, figure = line.rpartition(" ")
        try:
            value = float(figure)
        except ValueError:
            value = math.nan
        if not word or not 0.0 <= value <= _WEIGHT_MAX:
            raise SettingsError(f"fingerprint.idf: {source}: line {number}: must be a word and 0 to 100, not {line!r}")
        listed.append(word)
        values.append(value)
    if not listed:
        raise SettingsError(f"fingerprint.idf: {source} holds no word")
    unknown = float(head["unknown"]) if head else sorted(values)[len(values) // 2]
    return _table(normalise(listed), [fixed(value) for value in values], fixed(unknown), content)


def tag_factors(factors: str, extra: Sequence["DictionaryWord"], extra_digest: str, normalise: Normalise) -> WordTable:
    """Factor for each word by its part of speech, as in jieba's dictionary; 1 without a tag or factor.

    factors  `tag=factor` pairs with commas between. A tag covers all tags that begin with it (n: n, nr, ns, nt ...), and the
             longest match counts.
    extra    the user's own words; their tags override jieba's
    """
    by_prefix = {tag: fixed(float(factor)) for tag, _, factor in (pair.partition("=") for pair in factors.split(","))}

    def factor_of(tag: str) -> int:
        prefixes = (tag[:length] for length in range(len(tag), 0, -1))
        return next((by_prefix[prefix] for prefix in prefixes if prefix in by_prefix), FACTOR_UNIT)

    content = jieba_file("dict.txt")
    listed: dict[str, str] = {}
    for line in content.decode().splitlines():
        word, _, tag = line.split(" ")
        listed[word] = tag
    tags = dict(zip(normalise(list(listed)), listed.values(), strict=True))
    tags |= {entry.word: entry.tag for entry in extra if entry.tag}
    by_tag = {tag: factor_of(tag) for tag in set(tags.values())}
    weighty = {word: by_tag[tag] for word, tag in tags.items() if by_tag[tag] != FACTOR_UNIT}
    return _table(list(weighty), list(weighty.values()), FACTOR_UNIT, content + extra_digest.encode())


@dataclass(frozen=True, slots=True)
class DictionaryWord:
    """Line in a user dictionary, as in jieba: `word [frequency] [tag]`.

    >>> file = folder / "words.txt"
    >>> file.write_text("西湖区 300 ns", encoding="utf-8")
    10
    >>> words, digest = dictionary_words(file, normalise=list)
    >>> words[0].frequency, words[0].tag
    (300, 'ns')
    """

    word: str
    frequency: int | None
    tag: str


def dictionary_words(file: Path, normalise: Normalise) -> tuple[list[DictionaryWord], str]:
    """Words in a user dictionary, and the file's digest. Raises SettingsError.

    Words with other than Han characters never reach the segmenter, so their lines have no effect.
    """
    content = read_named("fingerprint.dictionary", file)
    entries: list[DictionaryWord] = []
    for number, line in _lines(content, str(file), "fingerprint.dictionary"):
        match = re.fullmatch(r"(?P<word>\S+)(?:\s+(?P<frequency>[0-9]{1,9}))?(?:\s+(?P<tag>[a-zA-Z]{1,8}))?", line)
        if match is None:
            raise SettingsError(
                f"fingerprint.dictionary: {file}: line {number}: must be `word [frequency] [tag]`, not {line!r}"
            )
        frequency = int(match["frequency"]) if match["frequency"] else None
        entries.append(DictionaryWord(match["word"], frequency, match["tag"] or ""))
    normal = normalise([entry.word for entry in entries])
    words = [
        DictionaryWord(word, entry.frequency, entry.tag) for word, entry in zip(normal, entries, strict=True) if word
    ]
    return words, _digest(content)


def word_list(file: Path | str, setting: str, normalise: Normalise) -> tuple[list[str], str]:
    """Words or phrases in a file, one a line, and the file's digest. Raises SettingsError.

    file  a path, or a list that ships with the package: MARKERS or PARTICLES
    """
    content = _shipped(file) if isinstance(file, str) else read_named(setting, file)
    listed = [line for _, line in _lines(content, str(file), setting) if not line.startswith("#")]
    return [word for word in normalise(listed) if word], _digest(content)


def _shipped(name: str) -> bytes:
    return resources.files("streamer.fingerprint.methods").joinpath(f"{name}.txt").read_bytes()


def _table(words: Sequence[str], values: Sequence[int], otherwise: int, content: bytes) -> WordTable:
    keys = np.fromiter((hash_text(word, 1)[0] for word in words), np.uint64, len(words))
    order = np.lexsort((np.array(values, np.int64), keys))
    keys, column = keys[order], np.array(values, np.int64)[order]
    first = np.ones(len(keys), np.bool_)
    first[1:] = keys[1:] != keys[:-1]
    keys = keys[first]
    bits = max(1, len(keys).bit_length())
    edges = np.searchsorted(keys, np.arange(1 << bits, dtype=np.uint64) << np.uint64(64 - bits)).astype(np.int32)
    return WordTable(keys, edges, np.append(column[first], otherwise), _digest(content))


def _digest(content: bytes) -> str:
    return f"sha256 {hashlib.sha256(content).hexdigest()}"


def _lines(content: bytes, name: str, setting: str) -> list[tuple[int, str]]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise SettingsError(f"{setting}: {name}: line {line}: is not UTF-8") from error
    return [(number, line.strip()) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
