"""Pages crawled again: what goes out where counters, dates, facts or whole texts change.

    python -m bench.recrawl [--pages 100] [--crawls 10] [--turns 1000] [--json]

Each line is one kind of crawl, with the share of the later records that went to the unique topic.

counters  pages whose counter and date change at every crawl; 0 is right
digit     long texts with one digit in their prose changed; all is right
facts     pages whose fact in a short line changes: found for missing, a price, a score; all is right
mirror    pages that were dropped as copies of a mirror, and whose text then changes; all is right
turns     two texts of one page in turn; four are right, and all other turns are duplicates
stolen    a page changes after another host came with its id; all is right
"""

import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import click
import numpy as np
import orjson
from rich.console import Console
from rich.table import Table

from deploy.made_up_site import LANGUAGES, Language, MadeUp, others
from streamer import Filter
from streamer.settings.settings import Settings

Crawl = list[dict[str, str]]
_DELIVERED = ("unique", "update")

_COUNTERS: dict[Language, str] = {
    "en": "Updated {day} May 2024 at 12:{minute:02d}\n{reads:,} views · {day} comments",
    "zh": "更新时间:2024-05-{day:02d} 12:{minute:02d} 阅读 {reads} 次 评论({day})",
}
_FACTS: dict[Language, list[tuple[str, str]]] = {
    "en": [("two missing", "two found"), ("Price: $100", "Price: $90"), ("Final score 3:1", "Final score 3:2")],
    "zh": [("两人失踪", "两人找到"), ("价格:100元", "价格:90元"), ("比分 3:1", "比分 3:2")],
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one kind of crawl.

    again      records that came again with another text
    delivered  those of them that went to the unique topic
    """

    kind: str
    language: str
    again: int
    delivered: int


def crawls(language: Language, pages: int, count: int, turns: int) -> Iterator[tuple[str, list[Crawl], int]]:
    """Kinds of crawls, as batches, and the number of first records, which do not count."""
    texts, long = (_unlike(others(language, 2 * pages, words=words, seed=words))[:pages] for words in (120, 2_000))
    rng = np.random.default_rng(9)

    def crawled(bodies: list[str], ids: str = "page", host: str = "site") -> Crawl:
        return [
            {"id": f"https://{host}.example/{ids}/{page}", "text": body, "host": f"{host}.example"}
            for page, body in enumerate(bodies)
        ]

    counters = _COUNTERS[language]
    counted = [
        crawled(
            [
                f"{text}\n{counters.format(day=1 + crawl, minute=page % 60, reads=1 + page * 37 * crawl)}"
                for page, text in enumerate(texts)
            ]
        )
        for crawl in range(count)
    ]
    yield "counters", counted, 1
    half = [len(text) // 2 for text in long]
    numbered = [
        crawled([f"{text[:at]} {7 + crawl} {text[at:]}" for text, at in zip(long, half, strict=True)])
        for crawl in range(2)
    ]
    yield "digit", numbered, 1
    facts = _FACTS[language]
    stated = [
        crawled([f"{text}\n{facts[page % len(facts)][state]}\n" for page, text in enumerate(texts)])
        for state in range(2)
    ]
    yield "facts", stated, 1
    changed = [f"{text} {int(rng.integers(10**6))}." for text in texts]
    yield "mirror", [crawled(texts, host="mirror"), crawled(texts), crawled(changed)], 2
    yield "turns", [crawled([texts[turn % 2]]) for turn in range(turns)], 2
    thief = [{**record, "host": "thief.example"} for record in crawled(changed)]
    yield "stolen", [crawled(texts), thief, crawled([f"{text} 1." for text in texts])], 2


def _unlike(crawled: MadeUp) -> list[str]:
    """Texts of which none is a copy of another."""
    first = np.unique(crawled.pages, return_index=True)[1]
    return [crawled.texts[place] for place in first.tolist()]


def outcomes(language: Language, pages: int, count: int, turns: int) -> Iterator[Outcome]:
    """Outcome of every kind."""
    settings = Settings.model_validate({"decode": {"id": "/id", "host": "/host"}, "fingerprint": {"key": "public"}})
    for kind, batches, first in crawls(language, pages, count, turns):
        with tempfile.TemporaryDirectory() as directory, Filter(directory, settings) as documents:
            verdicts = [[answer.verdict for answer in documents.admit(batch)] for batch in batches][first:]
        again = [verdict for batch in verdicts for verdict in batch]
        yield Outcome(kind, language, len(again), sum(verdict in _DELIVERED for verdict in again))


@click.command(help=__doc__)
@click.option("--pages", default=100, show_default=True, type=click.IntRange(2))
@click.option("--crawls", "count", default=10, show_default=True, type=click.IntRange(2, 28))
@click.option("--turns", default=1_000, show_default=True, type=click.IntRange(3))
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def main(pages: int, count: int, turns: int, as_json: bool) -> None:
    found = [each for language in LANGUAGES for each in outcomes(language, pages, count, turns)]
    if as_json:
        click.echo(orjson.dumps([asdict(each) for each in found], option=orjson.OPT_INDENT_2))
        return
    rows = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("language", "crawl"):
        rows.add_column(heading)
    for heading in ("again", "to unique"):
        rows.add_column(heading, justify="right")
    for each in found:
        rows.add_row(each.language, each.kind, f"{each.again:,}", f"{each.delivered:,}")
    Console().print(rows)


if __name__ == "__main__":
    main()
