"""One folder of six kinds of files: are copies found that cross from one kind to another?

    python -m bench.kinds [--documents 10000] [--set KEY=VALUE]... [--json]

Documents are made up, half of them in Chinese. A third are copies: an earlier document without one of its twenty sentences, in a
file of another kind. `streamer filter FOLDER --out DIR` decides them all, by its defaults unless --set says otherwise. The kinds:

    texts      JSON Lines, gzip: the text
    fragments  JSON Lines, Zstandard: paragraphs of HTML, as an editor stores them
    pages      JSON Lines: whole pages of HTML, with `content_type`
    crawl      WARC, a gzip member a record: responses with whole pages
    wet        WET: what can be seen of pages with a short frame, as text
    table      Parquet: the text

A whole page has a frame of its site around the article, with as many words as a short article. A WET record has only the
frame's first line: what a converter made of longer menus is text, and nothing tells it from the article.
"""

import gzip
import html
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard
from rich.console import Console
from rich.table import Table

KINDS = ("texts", "fragments", "pages", "crawl", "wet", "table")
MARKED_UP = frozenset({"fragments", "pages", "crawl"})
PARAGRAPHS, SENTENCES = 5, 4
SITES = 40
FRAME_LINES = 45

_WORDS = 4_000


class Made(NamedTuple):
    """A document: its id, the id of its original or its own, its kind, and its sentences by paragraph."""

    name: str
    root: str
    kind: str
    paragraphs: list[list[str]]
    is_chinese: bool

    @property
    def lines(self) -> list[str]:
        return [("" if self.is_chinese else " ").join(each) for each in self.paragraphs if each]


class Writer:
    """Made-up sentences, and the frames of sites."""

    def __init__(self, seed: int) -> None:
        self.dice = np.random.default_rng(seed)
        letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
        self._latin = ["".join(self.dice.choice(letters, self.dice.integers(2, 10))) for _ in range(_WORDS)]
        self._han = ["".join(map(chr, self.dice.integers(0x4E00, 0x8000, 2))) for _ in range(_WORDS)]
        self.frames = [[" ".join(self.some(self._latin, 3)) for _ in range(FRAME_LINES)] for _ in range(SITES)]

    def some(self, words: Sequence[str], count: int) -> list[str]:
        return [words[each] for each in self.dice.integers(0, len(words), count)]

    def sentence(self, is_chinese: bool) -> str:
        if is_chinese:
            return "".join(self.some(self._han, 12)) + "。"
        return " ".join(self.some(self._latin, 12)).capitalize() + "."

    def documents(self, count: int) -> list[Made]:
        copies = count // 3
        made = []
        for number in range(count - copies):
            is_chinese = number % 2 == 1
            paragraphs = [[self.sentence(is_chinese) for _ in range(SENTENCES)] for _ in range(PARAGRAPHS)]
            made.append(Made(f"d{number}", f"d{number}", KINDS[self.dice.integers(len(KINDS))], paragraphs, is_chinese))
        for root in made[:copies]:
            kind = KINDS[(KINDS.index(root.kind) + self.dice.integers(1, len(KINDS))) % len(KINDS)]
            paragraphs = [list(each) for each in root.paragraphs]
            del paragraphs[self.dice.integers(PARAGRAPHS)][self.dice.integers(SENTENCES)]
            made.append(Made(f"{root.name}-copy", root.name, kind, paragraphs, root.is_chinese))
        return made

    def page(self, document: Made) -> tuple[str, str]:
        """URL and HTML of a page with the document as its article."""
        site = int(self.dice.integers(SITES))
        third = FRAME_LINES // 3
        menu, side, footer = (self.frames[site][begin : begin + third] for begin in range(0, FRAME_LINES, third))
        links = "".join(f"<li><a href='/{number}'>{line}</a></li>" for number, line in enumerate(menu))
        sides = "".join(f"<div class='teaser'><h4>{line}</h4></div>" for line in side)
        page = (
            f"<!doctype html><html><head><title>{document.root}</title><style>nav{{float:left}}</style></head><body>"
            f"<header><nav><ul>{links}</ul></nav></header><main><article>{fragment(document)}</article></main>"
            f"<aside>{sides}</aside><footer>{'<br>'.join(footer)}</footer><script>var page = 1;</script></body></html>"
        )
        return f"http://site{site}.example/{document.name}", page


def fragment(document: Made) -> str:
    return "\n".join(f"<p>{html.escape(line)}</p>" for line in document.lines)


def warc_record(kind: str, url: str, name: str, content_type: str, block: bytes) -> bytes:
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\nWARC-Date: 2026-11-22T10:00:00Z\r\n"
        f"WARC-Record-ID: <{name}>\r\nContent-Type: {content_type}\r\nContent-Length: {len(block)}\r\n\r\n"
    )
    return gzip.compress(head.encode() + block + b"\r\n\r\n", 1)


def write(documents: Sequence[Made], writer: Writer, folder: Path) -> None:
    """Write the six files."""
    of_kind = {kind: [each for each in documents if each.kind == kind] for kind in KINDS}

    def lines(kind: str, member: dict[str, str]) -> bytes:
        return b"".join(
            orjson.dumps({"id": each.name, "text": member[each.name]} | extra.get(each.name, {})) + b"\n"
            for each in of_kind[kind]
        )

    extra: dict[str, dict[str, str]] = {}
    text = {each.name: "\n".join(each.lines) for each in documents}
    (folder / "texts.jsonl.gz").write_bytes(gzip.compress(lines("texts", text), 1))
    parts = {each.name: fragment(each) for each in of_kind["fragments"]}
    (folder / "fragments.jsonl.zst").write_bytes(zstandard.compress(lines("fragments", parts)))
    pages = {}
    for each in of_kind["pages"]:
        url, pages[each.name] = writer.page(each)
        extra[each.name] = {"url": url, "content_type": "text/html; charset=utf-8"}
    (folder / "pages.jsonl").write_bytes(lines("pages", pages))
    with (folder / "crawl.warc.gz").open("wb") as crawl, (folder / "crawl.warc.wet.gz").open("wb") as wet:
        for each in of_kind["crawl"]:
            url, page = writer.page(each)
            block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n" + page.encode()
            crawl.write(warc_record("response", url, each.name, "application/http; msgtype=response", block))
        for each in of_kind["wet"]:
            seen = f"{writer.frames[0][0]}\n{text[each.name]}"
            wet.write(
                warc_record("conversion", f"http://a.example/{each.name}", each.name, "text/plain", seen.encode())
            )
    rows = [{"id": each.name, "text": text[each.name]} for each in of_kind["table"]]
    pq.write_table(pa.Table.from_pylist(rows), folder / "table.parquet")


def found(documents: Sequence[Made], verdicts: Path) -> tuple[Counter[tuple[str, str]], int]:
    """Found copies by the kinds of the pair, and duplicates that are no pair."""
    by_name = {each.name: each for each in documents}
    pairs: Counter[tuple[str, str]] = Counter()
    false = 0
    for line in verdicts.read_bytes().splitlines():
        verdict = orjson.loads(line)
        if verdict["verdict"] == "duplicate":
            one, other = (by_name[verdict[key].strip("<>")] for key in ("id", "original"))
            if one.root == other.root:
                pairs[min(one.kind, other.kind), max(one.kind, other.kind)] += 1
            else:
                false += 1
    return pairs, false


def measure(count: int, overrides: Sequence[str], folder: Path) -> dict[str, Any]:
    """Filter a new folder. Returns the figures."""
    writer = Writer(seed=48)
    documents = writer.documents(count)
    (folder / "in").mkdir()
    write(documents, writer, folder / "in")
    settings = [word for each in overrides for word in ("--set", each)]
    out, index = folder / "out", folder / "index"
    command = [sys.executable, "-m", "streamer", "filter", folder / "in", "--out", out, "--index", index, *settings]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    kinds = {each.name: each.kind for each in documents}
    planted = Counter(
        (min(pair), max(pair))
        for each in documents
        if each.name != each.root
        if (pair := (each.kind, kinds[each.root]))
    )
    pairs, false = found(documents, out / "verdicts.jsonl")
    crossing = {pair for pair in planted if (pair[0] in MARKED_UP) != (pair[1] in MARKED_UP)}
    return {
        "documents": count,
        "copies": planted.total(),
        "found": pairs.total(),
        "recall": pairs.total() / planted.total(),
        "recall_html_to_text": sum(pairs[pair] for pair in crossing) / max(1, sum(planted[pair] for pair in crossing)),
        "false_duplicates": false,
        "by_pair": {" - ".join(pair): [pairs[pair], planted[pair]] for pair in sorted(planted)},
    }


@click.command(help=__doc__)
@click.option("--documents", "count", default=10_000, show_default=True, type=click.IntRange(60))
@click.option("--set", "overrides", multiple=True, metavar="SECTION.KEY=VALUE", help="A setting of the filter.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable results instead of a table.")
def main(count: int, overrides: tuple[str, ...], as_json: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(count, overrides, Path(folder))
    if as_json:
        click.echo(orjson.dumps(figures, option=orjson.OPT_INDENT_2))
        return
    table = Table("kinds", "found", "copies", title=f"{count} documents", title_justify="left")
    for pair, (here, planted) in figures.pop("by_pair").items():
        table.add_row(pair, str(here), str(planted))
    Console().print(table, figures)


if __name__ == "__main__":
    main()
