"""The same article in another page: the worth of taking off mark-up and boilerplate.

    python -m bench.boilerplate PAGES [--json]

PAGES is a file of JSON Lines (also .xz) with `html`, or a folder that holds `pages.jsonl.xz`. The article of a page is
its paragraphs that look like running text, by a rule apart from the filter's extraction; its other lines are its
boilerplate. Each article goes into two templates, one of plain blocks and one of semantic elements. Each template is
filled with the boilerplate of another page. A pair is

    same       an article in the one template and in the other: should be found
    page       the page as crawled, and its article in a template: should be found
    different  two articles without a common paragraph, in one template with one boilerplate: must not be found

Both schemes as shipped judge the pairs, with each value of fingerprint.markup.
"""

import html
import lzma
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import numpy as np
import orjson
from rich.console import Console
from rich.table import Table

from streamer.evaluation.scores import pair_distances, pairs_flagged, unreachable
from streamer.fingerprint.scheme import parameters_for, scheme_for
from streamer.settings.settings import load
from streamer.text.normalisation import visible_text

MARKUPS = ("none", "html", "html-main")
PARAGRAPHS_MIN = 3
BOILERPLATE_LINES = 60
"""Lines of another page around an article."""

_SENTENCE_END = re.compile(r"[。！？.!?][”」\"')]?$")
_PARAGRAPH_LETTERS_MIN = 40


@dataclass(frozen=True, slots=True)
class Article:
    """Paragraphs of a page, and the lines around them."""

    page: str
    paragraphs: Sequence[str]
    boilerplate: Sequence[str]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of one scheme on the pairs of one kind, with one value of fingerprint.markup.

    median  distance in bits, or similarity, over the pairs that could be compared
    """

    scheme: str
    markup: str
    kind: str
    pairs: int
    found: int
    median: float
    cpu_ms_per_page: float


def article_of(page: str) -> Article | None:
    """Article of a page: lines of some length that end as sentences do. None with fewer than PARAGRAPHS_MIN."""
    lines = [" ".join(line.split()) for line in visible_text(page).splitlines()]
    paragraphs = [line for line in lines if len(line) >= _PARAGRAPH_LETTERS_MIN and _SENTENCE_END.search(line)]
    around = [line for line in dict.fromkeys(lines) if line and line not in paragraphs]
    return Article(page, paragraphs, around) if len(paragraphs) >= PARAGRAPHS_MIN else None


def blocks(paragraphs: Sequence[str], boilerplate: Sequence[str]) -> str:
    """A page of divisions and lists, as of twenty years ago: a menu, a side bar, the text, a footer."""
    menu, side, footer = _parts(boilerplate)
    return (
        "<html><head><title>page</title><style>.menu{float:left}</style></head><body>"
        f"<div class='menu'><ul>{_each('li', menu)}</ul></div>"
        f"<div id='left'><h3>{menu[0] if menu else ''}</h3>{_each('div', side)}</div>"
        f"<div class='content'><div class='text'>{_each('p', map(html.escape, paragraphs))}</div></div>"
        f"<div class='copyright'>{'<br>'.join(footer)}</div></body></html>"
    )


def elements(paragraphs: Sequence[str], boilerplate: Sequence[str]) -> str:
    """A page of today: header, navigation, article, aside, footer, scripts."""
    menu, side, footer = _parts(boilerplate)
    links = "".join(f"<a href='/{number}'>{line}</a>" for number, line in enumerate(menu))
    return (
        "<!doctype html><html><head><meta charset='utf-8'><title>page</title></head><body>"
        f"<header><nav>{links}</nav></header><script>var page = {{}};</script>"
        f"<main><article>{_each('p', map(html.escape, paragraphs))}</article></main>"
        f"<aside><section>{_each('h4', side)}</section></aside>"
        f"<footer>{_each('span', footer)}</footer></body></html>"
    )


def pairs_of(articles: Sequence[Article]) -> dict[str, tuple[list[str], list[str]]]:
    """Pairs by kind: the pages of the one side, and those of the other."""
    others = [*articles[1:], *articles[:1]]
    others_still = [*others[1:], *others[:1]]
    around = [(one.boilerplate, other.boilerplate) for one, other in zip(others, others_still, strict=True)]
    one = [blocks(each.paragraphs, lines) for each, (lines, _) in zip(articles, around, strict=True)]
    two = [elements(each.paragraphs, lines) for each, (_, lines) in zip(articles, around, strict=True)]
    neighbours = [
        (page, blocks(other.paragraphs, lines))
        for page, each, other, (lines, _) in zip(one, articles, others, around, strict=True)
        # The set may hold a page twice.
        if not set(each.paragraphs) & set(other.paragraphs)
    ]
    return {
        "same": (one, two),
        "page": ([each.page for each in articles], two),
        "different": ([pair[0] for pair in neighbours], [pair[1] for pair in neighbours]),
    }


def measure(articles: Sequence[Article], scheme_name: str, markup: str) -> list[Outcome]:
    """Outcomes of one scheme and one value of fingerprint.markup, one per kind of pair."""
    settings = load(None, [f"fingerprint.scheme={scheme_name}", f"fingerprint.markup={markup}"], {})
    scheme = scheme_for(settings)
    parameters = parameters_for(settings, scheme.stamp())
    # Loading at first use is no part of the cost.
    scheme.fingerprint([articles[0].page])
    outcomes = []
    for kind, (left, right) in pairs_of(articles).items():
        begin = time.process_time()
        one, other = scheme.fingerprint(left), scheme.fingerprint(right)
        seconds = time.process_time() - begin
        apart = pair_distances(one, other, parameters)
        reached = apart[apart < unreachable(parameters)]
        middle = float(np.median(reached)) if len(reached) else float("nan")
        outcomes.append(
            Outcome(
                scheme_name,
                markup,
                kind,
                len(left),
                int(pairs_flagged(one, other, parameters).sum()),
                middle if parameters.banding is None else round(1 - middle / 10_000, 4),
                1_000 * seconds / (2 * len(left)),
            )
        )
    return outcomes


def read_pages(path: Path) -> list[str]:
    """Pages of a file or folder."""
    file = path / "pages.jsonl.xz" if path.is_dir() else path
    content = file.read_bytes()
    lines = (lzma.decompress(content) if file.suffix == ".xz" else content).splitlines()
    return [orjson.loads(line)["html"] for line in lines]


def _parts(boilerplate: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    lines = [html.escape(line) for line in boilerplate[:BOILERPLATE_LINES]]
    third = max(1, len(lines) // 3)
    return lines[:third], lines[third : 2 * third], lines[2 * third :]


def _each(element: str, lines: Iterable[str]) -> str:
    return "".join(f"<{element}>{line}</{element}>" for line in lines)


@click.command(help=__doc__)
@click.argument("pages", type=click.Path(exists=True, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Machine-readable results instead of a table.")
def main(pages: Path, as_json: bool) -> None:
    articles = [each for page in read_pages(pages) if (each := article_of(page)) is not None]
    if len(articles) < 3:
        raise click.BadParameter(f"{pages}: too few pages hold running text.")
    outcomes = [
        outcome
        for scheme in ("simhash", "minhash")
        for markup in MARKUPS
        for outcome in measure(articles, scheme, markup)
    ]
    if as_json:
        click.echo(orjson.dumps([asdict(each) for each in outcomes], option=orjson.OPT_INDENT_2))
        return
    table = Table(title=f"{len(articles)} articles", title_justify="left")
    for column in ("scheme", "markup", "pairs", "found", "median bits or similarity", "CPU ms a page"):
        table.add_column(column, justify="left" if column in ("scheme", "markup", "pairs") else "right")
    for each in outcomes:
        found = f"{each.found} of {each.pairs}"
        table.add_row(each.scheme, each.markup, each.kind, found, f"{each.median:g}", f"{each.cpu_ms_per_page:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
