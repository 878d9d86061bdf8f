"""A crawl of synthetic sites on the loopback address, stored as WARC, whose plan names the outcome for each fetch.

Each charset has a publisher, a mirror and a shop, and the crawler comes twice. The kinds of fetches:

article         a publisher's article: unique
mirrored        an article that the mirror has first: unique there
copied          the publisher's copy of it, crawled later: duplicate
product         a shop's page, mostly the shop's own frame: unique
unchanged       an article crawled again: duplicate
counted         an article crawled again with another date and counter: duplicate, for the reason update-minor
changed         an article crawled again with another fact: update
copied-changed  a copy crawled again with another fact: update
"""

import http.client
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Self

import numpy as np
import orjson
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

OUTCOMES = {
    "article": ("unique/no-match",),
    "mirrored": ("unique/no-match",),
    "copied": ("duplicate/similar",),
    "product": ("unique/no-match", "unique/template"),
    "unchanged": ("duplicate/same-text",),
    "counted": ("duplicate/update-minor",),
    "changed": ("update/recrawled",),
    "copied-changed": ("update/recrawled",),
}
"""Planned outcomes for each kind of fetch: a verdict and a reason."""

CHARSETS = {
    "utf-8": "".join(map(chr, range(0x4E00, 0x5E00))),
    "gb2312": bytes(byte for lead in range(0xB0, 0xD7) for trail in range(0xA1, 0xFF) for byte in (lead, trail)),
    "gbk": bytes(byte for lead in range(0x81, 0xA0) for trail in range(0x80, 0xFF) for byte in (lead, trail)),
    "gb18030": "".join(map(chr, range(0x3400, 0x4D00))),
    "big5": bytes(byte for lead in range(0xA4, 0xC6) for trail in range(0xA1, 0xFF) for byte in (lead, trail)),
    "shift_jis": bytes(byte for lead in range(0x89, 0x97) for trail in range(0x9F, 0xFC) for byte in (lead, trail)),
    "euc-jp": bytes(byte for lead in range(0xB0, 0xCF) for trail in range(0xA1, 0xFF) for byte in (lead, trail)),
    "euc-kr": bytes(byte for lead in range(0xB0, 0xC8) for trail in range(0xA1, 0xFF) for byte in (lead, trail)),
    "windows-1251": "абвгдежзийклмнопрстуфхцчшщъыьэюя",
    "iso-8859-1": "abcdefghijklmnoprstuvyzàáâãäåæçèéêëìíîïñòóôõöøùúûüý",
}
"""Letters for each charset, as text or encoded."""

ARTICLES, MIRRORED, PRODUCTS = 50, 20, 40
FETCHES = 2 * (ARTICLES + MIRRORED) + MIRRORED + PRODUCTS
"""Fetches of pages for each charset."""

SETTINGS = {"decode": {"preset": "warc", "id": "/url"}, "fingerprint": {"markup": "html"}}
"""Settings that read the crawl: a page's address is its id."""

_FIRST_PRODUCTS = 25


@dataclass(frozen=True, slots=True)
class Fetch:
    """One request of the crawler, and what the server answers.

    kind    key of OUTCOMES
    header  whether HTTP names the charset; else the page does
    """

    kind: str
    host: str
    path: str
    page: bytes
    charset: str
    header: bool

    @property
    def url(self) -> str:
        """Address of the page."""
        return f"http://{self.host}{self.path}"


def plan(charsets: Sequence[str], seed: int = 1) -> list[Fetch]:
    """All fetches in order, the first crawl and then the second."""
    crawls: tuple[list[Fetch], list[Fetch]] = ([], [])
    for number, charset in enumerate(charsets):
        for fetch, again in _fetches(charset, np.random.default_rng([seed, number])):
            crawls[again].append(fetch)
    return [*crawls[0], *crawls[1]]


def _fetches(charset: str, rng: np.random.Generator) -> Iterator[tuple[Fetch, bool]]:
    """One charset's fetches in order, and whether each belongs to the second crawl."""
    letters = CHARSETS[charset]
    alphabet = np.array(list(letters if isinstance(letters, str) else letters.decode(charset, errors="ignore")))

    def words(count: int) -> str:
        return " ".join("".join(rng.choice(alphabet, length)) for length in rng.integers(3, 9, size=count))

    def fetch(kind: str, site: str, number: int, body: str) -> Fetch:
        header = number % 2 == 0
        meta = "" if header else f'<meta charset="{charset}">'
        page = f"<html><head>{meta}<title>{number}</title></head><body>{body}</body></html>"
        return Fetch(kind, f"{site}-{charset}.example", f"/{number}", page.encode(charset), charset, header)

    def stated(text: str, day: int, fact: int) -> str:
        return f"<p>{text}</p><p>2026-05-{day:02} 12:{day:02}</p><p>{day * 137} views</p><p>{text[:40]} {fact} {text[40:80]}</p>"

    articles = [words(120) for _ in range(ARTICLES + MIRRORED)]
    for number, text in enumerate(articles[ARTICLES:], ARTICLES):
        yield fetch("mirrored", "mirror", number, f"<p>{words(3)}</p>{stated(text, 1, 1)}"), False
    for number, text in enumerate(articles):
        yield fetch("article" if number < ARTICLES else "copied", "news", number, stated(text, 1, 1)), False
    frame = words(150)
    for number in range(PRODUCTS):
        # The first pages have much text of their own, and teach the frame that the later ones are compared without.
        yield fetch("product", "shop", number, f"{frame}<p>{words(90 if number < _FIRST_PRODUCTS else 20)}</p>"), False
    for number, text in enumerate(articles):
        kind = ("unchanged", "counted", "changed")[number % 3] if number < ARTICLES else "copied-changed"
        day, fact = (1 if kind == "unchanged" else 2), (2 if kind.endswith("changed") and kind != "unchanged" else 1)
        yield fetch(kind, "news", number, stated(text, day, fact)), True


class Sites:
    """A server on the loopback address: a host's path answers with its fetches' pages, one after the other."""

    def __init__(self, fetches: Sequence[Fetch]) -> None:
        self._answers: dict[str, list[Fetch]] = {}
        for fetch in fetches:
            self._answers.setdefault(fetch.url, []).append(fetch)
        sites = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Headers and body are two writes: with the algorithm each answer would wait 40 ms.
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                fetch = sites._answers[f"http://{self.headers['Host']}{self.path}"].pop(0)
                self.send_response(200)
                charset = f"; charset={fetch.charset}" if fetch.header else ""
                self.send_header("Content-Type", f"text/html{charset}")
                self.send_header("Content-Length", str(len(fetch.page)))
                self.end_headers()
                self.wfile.write(fetch.page)

            def log_message(self, *values: object) -> None:
                """Keep standard error quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, daemon=True)

    @property
    def port(self) -> int:
        """Port that the server listens on."""
        return int(self._server.server_address[1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def crawl(fetches: Sequence[Fetch], archive: Path) -> None:
    """Fetch all pages from a local server into a WARC file, with a picture and a missing page that are no documents."""
    with Sites(fetches) as sites, archive.open("wb") as file:
        writer = WARCWriter(file, gzip=True)

        def store(url: str, status: str, headers: list[tuple[str, str]], body: bytes) -> None:
            said = StatusAndHeaders(status, headers, protocol="HTTP/1.1")
            record = writer.create_warc_record(
                url, "response", payload=BytesIO(body), length=len(body), http_headers=said
            )
            writer.write_record(record)

        connection = http.client.HTTPConnection("127.0.0.1", sites.port)
        for fetch in fetches:
            connection.request("GET", fetch.path, headers={"Host": fetch.host})
            answer = connection.getresponse()
            store(fetch.url, f"{answer.status} {answer.reason}", answer.getheaders(), answer.read())
        connection.close()
        store("http://news.example/logo.png", "200 OK", [("Content-Type", "image/png")], b"\x89PNG")
        store("http://news.example/gone", "404 Not Found", [("Content-Type", "text/html")], b"gone")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fetch: how often it came, and how often with a planned outcome."""

    kind: str
    outcomes: tuple[str, ...]
    fetches: int
    right: int


def compared(fetches: Sequence[Fetch], outcomes: Sequence[str]) -> list[Kind]:
    """Count right outcomes by kind. Raises ValueError unless there is one outcome for each fetch."""
    right: Counter[str] = Counter()
    for fetch, outcome in zip(fetches, outcomes, strict=True):
        right[fetch.kind] += outcome in OUTCOMES[fetch.kind]
    counts = Counter(fetch.kind for fetch in fetches)
    return [Kind(kind, planned, counts[kind], right[kind]) for kind, planned in OUTCOMES.items()]


def outcomes_of(folder: Path) -> list[str]:
    """Outcomes in an output folder, in input order."""
    rows = map(orjson.loads, (folder / "verdicts.jsonl").read_bytes().splitlines())
    return [f"{row['verdict']}/{row['reason']}" for row in sorted(rows, key=lambda row: int(row["line"]))]
