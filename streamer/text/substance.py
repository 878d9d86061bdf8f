"""The substance of a text: the text without its counters and dates.

Counters and dates change at every visit to a page. Facts stay: a price, a score, a number in a sentence. A passage is the text
between line breaks and sentence ends, with at most LETTERS_MAX letters. In a passage with digits these are items:

- a counter: a number next to a word for readers' actions, as in "1,204 views", "评论(33)" or "阅读:1.2万"
- a date, with a time or without: "2024-05-01 12:30", "May 5, 2024", "5月1日", "3 hours ago"
- a date or a time after a word for publishing: "updated 12:30", "发布于 5月1日"

Neighbouring items form a chain. A chain is left out if one of these holds:

- It is the whole passage.
- The passage is no sentence, and both neighbours are separators such as "·" and "|", or the passage's ends.
- It has two items or a colon, one of them no bare date, and begins the passage, or ends one that is no sentence.
- It begins a passage that is no sentence, and another chain is left out.

Only a text's first and last PASSAGES_MAX passages are examined: more are lines of a table. Texts are in the normal form, with
white space collapsed.
"""

import re
import tomllib
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from streamer.text import passage_kernels as kernels
from streamer.text.characters import CODE_POINTS, Characters, decode

_LISTS = tomllib.loads(Path(__file__).with_name("items.toml").read_text("utf-8"))
_READERS, _WORDS, _MONTHS, _PUBLISHED = ("|".join(_LISTS[name]) for name in ("readers", "words", "months", "published"))

_NUMBER = (
    r"\d+(?:[.,' ]\d{3})*(?:[.,]\d+)?(?:\s?(?:[万萬亿億千]|[kmw](?![^\W\d_])))?\+?"
    r"(?![\d%]|\s?(?:元|円|원|€|usd|eur|dollars?|euros?))"
)
_FIRST = r"(?<![\d.,$€£¥₩₹:])"
_BRACKETED = rf"[(\[]?\s?{_NUMBER}\s?[)\]]?"
_READER = rf"(?:(?:{_READERS})(?:量|数|數|次数|次數|人数|人數|总数)?|(?<![^\W\d_])(?:{_WORDS})(?![^\W\d_]))"
_COUNTER = (
    rf"{_READER}(?P<of_readers>\s?:)?\s?{_BRACKETED}\s?(?:[次人条條个個]|times)?"
    rf"|{_FIRST}{_BRACKETED}\s?(?:[次人条條个個篇位名]|times)?\s?(?:{_READER}|看过|看過|读过|讀過|在看)(?P<readers>)"
)
_MONTH = rf"(?:{_MONTHS})(?![^\W\d_])\.?"
_WEEKDAY = (
    r"(?:星期|周|週)[一二三四五六日天]|[月火水木金土日]曜日?"
    r"|(?<![^\W\d_])(?:mon|tue|tues|wed|wednes|thu|thur|thurs|fri|sat|satur|sun)(?:day)?(?![^\W\d_])"
)
_TIME = (
    r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?!\d)(?:\s?[ap]\.?m\b\.?)?"
    r"(?:\s?(?:utc|gmt|cst|cet|cest|est|edt|pst|pdt|z)\b|[+-]\d{2}:?\d{2})?"
)
_DAY = (
    r"(?<![\d.,$€£¥₩₹])(?:"
    r"\d{4}\s?[-/.年]\s?\d{1,2}\s?[-/.月]\s?\d{1,2}(?!\d)\s?日?"
    r"|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}(?!\d)"
    r"|\d{1,2}月\d{1,2}日"
    rf"|\d{{1,2}}(?:st|nd|rd|th|er)?\.?\s(?:de\s)?{_MONTH}(?:,?\s(?:de\s)?\d{{4}}(?!\d))?"
    r"|\d+\s?(?:秒|分钟|分鐘|小时|小時|天|日|周|週|个月|個月|月|年)前"
    r"|\d+\s(?:seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|months?|years?)\sago(?![^\W\d_]))"
    rf"|(?<![^\W\d_]){_MONTH}\s\d{{1,2}}(?:st|nd|rd|th)?(?!\d)(?:,?\s\d{{4}}(?!\d))?"
)
_DATE = (
    rf"(?:(?:{_WEEKDAY})[,\s]*)?(?:{_DAY})(?:[\s,]*(?:{_WEEKDAY}))?(?:(?:[\s,t]|\s(?:at|um|à|a las)\s)*(?:{_TIME}))?"
)
_LABELLED = rf"(?:{_PUBLISHED})(?P<of_date>\s?:)?\s?(?:on\s|at\s|am\s|le\s)?(?:{_DATE}|{_TIME})"
# An item's first character: any item's, or a letter that begins a word. This test is a tenth of the alternatives' cost.
_FIRSTS, _FIRSTS_OF_WORDS = (
    "".join(sorted({word[0] for word in words.split("|")}))
    for words in (f"{_READERS}|{_PUBLISHED}|星|周|週|月|火|水|木|金|土|日", f"{_WORDS}|{_MONTHS}|mon|tue|wed|fri|sat")
)
_BEGINS = rf"(?=\s?[\d(\[{_FIRSTS}]|(?<![^\W\d_])[{_FIRSTS_OF_WORDS}])"
_ITEM = re.compile(rf"{_BEGINS}(?:(?P<labelled>{_LABELLED})|(?P<counter>{_COUNTER})|(?P<date>{_DATE}))")
_DIGITS = re.compile(r"\d+(?:[.,' ]\d{3})*(?:[.,]\d+)?(?:\s?(?:[万萬亿億千]|[kmw](?![^\W\d_])))?\+?")
_LETTER = re.compile(r"\w")
_JOINT = re.compile(r"[\s·|•‧・,;、/()\[\]~-]*")
_LIST = re.compile(r"[\s·|•‧・/]*")
_SEPARATORS = "·|•‧・"

_ALTERNATIVES = [*_READERS.split("|"), *_WORDS.split("|"), *_MONTHS.split("|"), *_PUBLISHED.split("|"), "ago"]
_FIRST_LETTERS = "".join({word[0] for word in _ALTERNATIVES if word[:1] >= "\u1100"})
_SIGN = re.compile(rf"[{_FIRST_LETTERS}年月前看读讀]|\d\s?[-/.]\s?\d{{1,2}}\s?[-/.]\s?\d")
_BEGINNINGS = frozenset(word[:3] for word in _ALTERNATIVES if word[:1].isalpha())
_WORD = re.compile(r"[^\W\d_]{3,}")

_LETTERS_END = 0x40000
"""Unicode has no letters, digits and white space at higher code points."""

_ROLES = {
    kernels.DIGIT: "0123456789",
    kernels.BREAK: "\n\r\v\f\x85\u2028\u2029",
    kernels.SENTENCE_END: "!?。",
    kernels.FULL_STOP: ".",
    kernels.SEPARATOR: _SEPARATORS,
}
_IN_DATES = (
    "a|ago|am|at|cest|cet|cst|day|de|edt|er|est|fri|gmt|hour|hr|hrs|k|las|le|m|min|mon|month|nd|on|p|pdt|pm|pst|rd|sat|sec|st|sun|"
    "t|th|thu|times|tt|ttt|tue|um|utc|w|wed|week|year|z"
)

PASSAGES_REMEMBERED = 2**12
"""A site repeats its lines on every page; some 2 MB."""

Span = tuple[int, int, str]
"""Begin and end of the removed part, and its replacement."""


def passages_of(characters: Characters) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Results of `passage_kernels.passages`: collapsed texts, bounds, and passages to examine."""
    return kernels.passages(characters.codepoints, characters.bounds, _signs())


@cache
def _signs() -> kernels.Signs:
    return kernels.Signs(_roles(), _words())


def _roles() -> npt.NDArray[np.uint8]:
    roles = np.full(CODE_POINTS, kernels.PUNCTUATION, np.uint8)
    everything = decode(np.arange(_LETTERS_END, dtype=np.uint32))
    for pattern, role in ((r"[^\W_]+", kernels.LETTER), (r"\s+", kernels.BLANK), (r"\d+", kernels.OTHER_DIGIT)):
        for run in re.finditer(pattern, everything):
            roles[run.start() : run.end()] = role
    in_marks = set(f"{_READERS}{_PUBLISHED}看过過读讀在") - set("年月日时時天周週分")
    for character in filter(str.isalpha, _ITEM.pattern):
        if character >= "\u1100":
            roles[ord(character)] = kernels.MARK_SIGN if character in in_marks else kernels.DATE_SIGN
    for role, characters in _ROLES.items():
        roles[list(map(ord, characters))] = role
    return roles


def _words() -> npt.NDArray[np.uint64]:
    """Beginnings of items' words, for `passage_kernels._kind`."""
    kinds = {}
    for kind, listed in ((kernels.DATE, f"{_MONTHS}|{_IN_DATES}"), (kernels.MARK, _WORDS), (kernels.LABEL, _PUBLISHED)):
        for word in re.findall(r"[^\W\d_]+", listed):
            kinds[sum(ord(letter) << 21 * place for place, letter in enumerate(reversed(word[:3])))] = kind
    return np.array(sorted(letters << 2 | kind for letters, kind in kinds.items()), np.uint64)


@lru_cache(PASSAGES_REMEMBERED)
def counters_and_dates(passage: str, *, is_sentence: bool) -> tuple[Span, ...]:
    """Parts to leave out of a passage, in order.

    is_sentence  whether a sentence end closes it

        >>> counters_and_dates("1,204 views · updated 12:30", is_sentence=False)
        ((0, 11, '\\x00 view'), (14, 27, '\\x00'))
        >>> counters_and_dates("two missing, 1,204 rescued", is_sentence=False)
        ()
    """
    # Most passages have no item, like the lines of a table: this test costs a tenth.
    if not _SIGN.search(passage) and _BEGINNINGS.isdisjoint([word[:3] for word in _WORD.findall(passage)]):
        return ()
    chains: list[list[re.Match[str]]] = []
    for item in _ITEM.finditer(passage):
        if chains and _JOINT.fullmatch(passage, chains[-1][-1].end(), item.start()):
            chains[-1].append(item)
        else:
            chains.append([item])
    left_out = [_is_no_text(passage, chain, is_sentence) for chain in chains]
    if any(left_out) and not is_sentence and not _LETTER.search(passage, 0, chains[0][0].start()):
        left_out[0] = True
    return tuple(_left_out(item) for chain, out in zip(chains, left_out, strict=True) if out for item in chain)


def _left_out(item: re.Match[str]) -> Span:
    """The item's span; a counter keeps its word, but for the plural ending."""
    word = _DIGITS.sub("\0", item.group()).rstrip("s") if item["counter"] is not None else "\0"
    return item.start(), item.end(), word


def _is_no_text(passage: str, chain: list[re.Match[str]], is_sentence: bool) -> bool:
    before, after = passage[: chain[0].start()].rstrip(), passage[chain[-1].end() :].lstrip()
    begins, ends = _LETTER.search(before) is None, _LETTER.search(after) is None
    if begins and ends:
        return True
    if not is_sentence and (begins or before[-1] in _SEPARATORS) and (ends or after[0] in _SEPARATORS):
        return True
    if all(item["date"] is not None for item in chain):
        return False
    has_colon = any(item["of_readers"] is not None or item["of_date"] is not None for item in chain)
    apart = all(_LIST.fullmatch(passage, one.end(), other.start()) for one, other in pairwise(chain))
    return (has_colon or (len(chain) > 1 and apart)) and (begins or (ends and not is_sentence))
