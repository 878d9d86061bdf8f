"""The demo's documents: synthetic news in Chinese and English, and edited copies.

An article is an opening and some sentences on one topic, from chinese.toml or english.toml. Random draws resolve
choices (`[a|b]`) and fill blanks (`{name}`). A copy's id names its article and edit: the truth for verdicts.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from streamer.evaluation.dice import Dice

COUNT_MIN = 100
ARTICLES_FIRST = 12
"""Articles before the first copy."""
DRAWS = 24
"""Sentence draws per article; `_pick` keeps the best."""

EDITS = ("same", "noise", "headline", "figure", "typo", "framed", "dropped", "moved")
"""Edits for copies; words.toml describes them. The first three do not change the normalised text."""

_COPY_ID = re.compile(r"(?P<article>[a-z]{2}-\d+)(?:-copy-\d+-(?P<edit>[a-z]+))?")
_CHOICE = re.compile(r"\[([^\[\]]*)\]")
_BLANK = re.compile(r"\{(\w+)\}")
_FIGURE = re.compile(r"\d[\d.,]*\d|\d")
_INVISIBLE = ("\u200b", "\ufeff", "\u2060", "\u00ad")
_FULL_WIDTH = {ord(digit): ord(digit) + 0xFEE0 for digit in "0123456789"}
_HALF_WIDTH = str.maketrans("，：；？！（）", ",:;?!()")
_WORDLESS = ("", "……！！！", " \n\t ", "—— * * * ——", "🙂🙂🙂", "\u200b\ufeff", "。。。", "<<< >>>")


class Label(NamedTuple):
    """Article and edit in a document's id; no edit for the article itself.

    >>> label_of("en-0007")
    Label(article='en-0007', edit=None)
    """

    article: str
    edit: str | None


@dataclass(frozen=True, slots=True)
class Topic:
    """Templates on one topic.

    >>> topic = Topic("sport", headlines=["{team} wins"], openings=[], sentences=["{team} scored late."])
    >>> topic.headlines[0].format(team="Harbour")
    'Harbour wins'
    """

    name: str
    headlines: list[str]
    openings: list[str]
    sentences: list[str]


@dataclass(frozen=True, slots=True)
class Stock:
    """Article parts in one language. `between` separates sentences and words.

    >>> stock = Stock("en", between=" ", topics=[], parts={})
    >>> stock.between.join(["One sentence.", "Another."])
    'One sentence. Another.'
    """

    code: str
    between: str
    topics: list[Topic]
    parts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Article:
    """An unwritten document: id, headline, paragraphs, and values for its blanks.

    >>> stock = Stock("en", " ", [], {})
    >>> Article("en-1", stock, "A title", (("One.", "Two."), ("Three.",)), {}).text
    'One. Two.\\nThree.'
    """

    id: str
    stock: Stock
    title: str
    paragraphs: tuple[tuple[str, ...], ...]
    blanks: dict[str, str]

    @property
    def text(self) -> str:
        """The paragraphs, one per line."""
        return "\n".join(map(self.stock.between.join, self.paragraphs))


def label_of(document_id: str) -> Label | None:
    """Label in a demo document's id; None for wordless documents, broken lines and other ids.

    >>> label_of("en-0007-copy-2-typo")
    Label(article='en-0007', edit='typo')
    """
    match = _COPY_ID.fullmatch(document_id)
    return Label(match["article"], match["edit"]) if match else None


def documents(count: int = 600, seed: int = 2026) -> Iterator[bytes]:
    """Generate `count` JSON lines {id, title, text}. Equal seeds give equal lines on every machine.

    Two fifths are edited copies. One in 75 has no words, and one in 75 is broken. The rest are articles, two thirds in
    Chinese. Raises ValueError for a count below COUNT_MIN.
    """
    if count < COUNT_MIN:
        raise ValueError(f"count must be at least {COUNT_MIN} to show every verdict, not {count}")
    dice = Dice(seed)
    oddities = count // 75
    copies = count * 2 // 5
    edits = list(EDITS)
    plan = [*(edits[number % len(edits)] for number in range(copies)), *["wordless", "broken"] * oddities]
    plan += ["article"] * (count - len(plan) - ARTICLES_FIRST)
    writer = _Writer(dice)
    for step in ["article"] * ARTICLES_FIRST + dice.shuffled(plan):
        yield writer.line(step)


class _Writer:
    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self._stocks = (_stock("zh", ""), _stock("zh", ""), _stock("en", " "))
        self._articles: list[Article] = []
        self._copies: dict[str, int] = {}
        self._written: Counter[str] = Counter()
        self._picked: dict[tuple[str, str], npt.NDArray[np.uint64]] = {}
        self._wordless = 0
        self._broken = 0

    def line(self, step: str) -> bytes:
        if step == "article":
            self._articles.append(self._article())
            return _line(self._articles[-1], self._articles[-1].text)
        if step == "wordless":
            self._wordless += 1
            text = _WORDLESS[(self._wordless - 1) % len(_WORDLESS)]
            return orjson.dumps({"id": f"wordless-{self._wordless}", "title": "", "text": text})
        if step == "broken":
            self._broken += 1
            return _broken(self._broken)
        return self._copy(self._dice.one(self._articles), step)

    def _article(self) -> Article:
        dice, number = self._dice, len(self._articles)
        stock = self._stocks[number % 3]
        written = self._written[stock.code]
        self._written[stock.code] += 1
        topic = stock.topics[written % len(stock.topics)]
        blanks = _blanks(stock, dice)

        def filled(template: str) -> str:
            return _filled(template, blanks, stock, dice)

        body = self._pick(stock, topic)
        third = dice.number(2, len(body) - 2)
        opening = dice.one(topic.openings)
        paragraphs = ([opening, body[0]], body[1:third], body[third:])
        return Article(
            f"{stock.code}-{written + 1:04d}",
            stock,
            filled(dice.one(topic.headlines)),
            tuple(tuple(map(filled, sentences)) for sentences in paragraphs),
            blanks,
        )

    def _pick(self, stock: Stock, topic: Topic) -> list[str]:
        """The draw that shares the fewest sentences with any earlier article."""
        place = {sentence: place for place, sentence in enumerate(topic.sentences)}
        # Bit i of an article's word is set for sentence i, so one call compares a draw with all earlier ones.
        before = self._picked.get((stock.code, topic.name), np.empty(0, np.uint64))
        size = self._dice.number(6, 8)
        draws = [self._dice.some(topic.sentences, size) for _ in range(DRAWS)]
        words = [np.uint64(sum(1 << place[sentence] for sentence in draw)) for draw in draws]
        shared = [np.bitwise_count(before & word).max(initial=0) for word in words]
        best = int(np.argmin(shared))
        self._picked[stock.code, topic.name] = np.append(before, words[best])
        return draws[best]

    def _copy(self, article: Article, edit: str) -> bytes:
        number = self._copies[article.id] = self._copies.get(article.id, 0) + 1
        copy = replace(article, id=f"{article.id}-copy-{number}-{edit}")
        if edit in _REWRITTEN:
            return _line(copy, _REWRITTEN[edit](copy, self._dice))
        rearranged = _rearranged(copy, edit, self._dice)
        return _line(rearranged, rearranged.text)


def _rearranged(article: Article, edit: str, dice: Dice) -> Article:
    paragraphs, parts = article.paragraphs, article.stock.parts
    if edit == "headline":
        return replace(article, title=_filled(dice.one(parts["new_headlines"]), article.blanks, article.stock, dice))
    if edit == "framed":
        before, after = (
            _filled(dice.one(parts[part]), article.blanks, article.stock, dice) for part in ("masthead", "imprint")
        )
        return replace(article, paragraphs=((before,), *paragraphs, (after,)))
    if edit == "dropped":
        at = dice.number(1, len(paragraphs) - 1)
        sentence = dice.number(0, len(paragraphs[at]) - 1)
        shorter = paragraphs[at][:sentence] + paragraphs[at][sentence + 1 :]
        kept = (*paragraphs[:at], shorter, *paragraphs[at + 1 :])
        return replace(article, paragraphs=tuple(filter(None, kept)))
    if edit == "moved":
        return replace(article, paragraphs=(paragraphs[0], *paragraphs[:0:-1]))
    assert edit == "same"
    return article


def _noisy(article: Article, dice: Dice) -> str:
    """Change widths, invisible characters and white space, but not the normal form."""

    def noisy(character: str) -> str:
        if character in " \n":
            return character + dice.one((" ", "\u00a0", "\t")) if dice.falls(0.3) else character
        if dice.falls(0.5):
            character = character.translate(_FULL_WIDTH).translate(_HALF_WIDTH)
        return character + dice.one(_INVISIBLE) if dice.falls(0.05) else character

    return "".join(map(noisy, article.text))


def _other_figure(article: Article, dice: Dice) -> str:
    text = article.text
    figure = dice.one(list(_FIGURE.finditer(text)))
    digit = figure.end() - 1
    return f"{text[:digit]}{(int(text[digit]) + dice.number(1, 9)) % 10}{text[digit + 1 :]}"


def _mistyped(article: Article, dice: Dice) -> str:
    text, letters = article.text, "[a-z]" if article.stock.between else "[\u4e00-\u9fff]"
    places = [
        match.start() + 1
        for match in re.finditer(f"(?={letters}{{4}})", text)
        if text[match.start() + 1] != text[match.start() + 2]
    ]
    at = dice.one(places)
    return text[:at] + text[at + 1] + text[at] + text[at + 2 :]


_REWRITTEN = {"noise": _noisy, "figure": _other_figure, "typo": _mistyped}
"""Edits of the text as a whole."""


def _broken(number: int) -> bytes:
    lines = (
        f'{{"id": "broken-{number}", "title": "cut off", "text": "The connection was closed while'.encode(),
        f'{{"id": "broken-{number}", "title": "no text"}}'.encode(),
        f'{{"id": "broken-{number}", "text": 20260314}}'.encode(),
        b"<html><body>502 Bad Gateway</body></html>",
        f'{{"id": "broken-{number}", "text": "'.encode() + "编码不对".encode("gb18030") + b'"}',
    )
    return lines[(number - 1) % len(lines)]


def _line(article: Article, text: str) -> bytes:
    return orjson.dumps({"id": article.id, "title": article.title, "text": text})


@cache
def _stock(code: str, between: str) -> Stock:
    name = {"zh": "chinese.toml", "en": "english.toml"}[code]
    parts: dict[str, Any] = tomllib.loads(resources.files("streamer.demo").joinpath(name).read_text(encoding="utf-8"))
    return Stock(code, between, [Topic(**topic) for topic in parts.pop("topic")], parts)


def _blanks(stock: Stock, dice: Dice) -> dict[str, str]:
    stems = dice.some(stock.parts["stems"], 3)
    kinds = stock.parts["place_kinds"]
    firsts, seconds = (dice.some(stock.parts[part], 2) for part in ("surnames", "given_names"))
    if stock.code == "en":
        firsts, seconds = seconds, firsts
    people = [first + second for first, second in zip(firsts, seconds, strict=True)]
    month, day = dice.number(1, 12), dice.number(1, 28)
    return {
        "stem": stems[0],
        "place": stems[0] + dice.one(kinds),
        "town": stems[1] + dice.one(kinds),
        "company": stems[2] + dice.one(stock.parts["company_kinds"]),
        "product": dice.one(stock.parts["products"]),
        "person": people[0],
        "second_person": people[1],
        "date": stock.parts["date"].format(day=day, month=stock.parts["months"][month - 1]),
    }


def _filled(template: str, blanks: dict[str, str], stock: Stock, dice: Dice) -> str:
    many = "d" if stock.code == "zh" else ",d"
    figures = {
        "few": lambda: str(dice.number(2, 9)),
        "some": lambda: str(dice.number(11, 98)),
        "many": lambda: format(10 * dice.number(11, 980), many),
        "share": lambda: f"{dice.number(2, 39)}.{dice.number(1, 9)}",
        "year": lambda: str(dice.number(1921, 1998)),
    }

    def blank(match: re.Match[str]) -> str:
        return figures[match[1]]() if match[1] in figures else blanks[match[1]]

    return _BLANK.sub(blank, _CHOICE.sub(lambda match: dice.one(match[1].split("|")), template))
