"""Decode and fingerprint values as a hostile crawler might write them, from one seed, and say what became of them.

    python -m bench.fuzz --seconds 60 --seed 1 --bytes-max 200000 --markup html
    python -m bench.fuzz --seconds 60 --of archives

Bytes, JSON of every type, mark-up of every shape; with `--of`, numbers and strings that are hardly JSON, whole archives or
the rows of Parquet files. The input under way stands in a file, so that one that ends the process can be read there. Exits
with 1 where an input took longer than --ms-max.
"""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson

from bench import fuzz_archives, fuzz_json, fuzz_parquet
from index import Source
from streamer.fingerprint.documents import fingerprint_documents
from streamer.fingerprint.scheme import scheme_for
from streamer.records.decode import DeadLetter, Decoder
from streamer.records.reason import Reason
from streamer.records.record import Record
from streamer.settings.settings import Settings

Shape = Callable[[random.Random, int], str]

_TAGS = (
    *("a", "b", "body", "br", "button", "caption", "col", "dd", "div", "dl", "font", "form", "frameset"),
    *("h1", "head", "hr", "html", "i", "iframe", "img", "input", "li", "link", "math", "mi", "noscript"),
    *("object", "ol", "optgroup", "option", "p", "plaintext", "pre", "script", "select", "span", "style"),
    *("svg", "table", "tbody", "td", "template", "textarea", "title", "tr", "ul", "xmp"),
)
_PIECES = (
    "text ",
    "文字",
    "\0",
    "&amp;",
    "&#x",
    "&#0;",
    "&#1114112;",
    "&notin;",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    "<?",
    "<!",
    "</",
    "<",
    ">",
    '"',
    "'",
    "=",
    "\u202e",
    "\ud800",
    "\U0010ffff",
    "\r\n",
    "\f",
)


def nested(chance: random.Random, size: int) -> str:
    """One or two tags within each other, never closed."""
    opened = "".join(f"<{tag}>" for tag in chance.choices(_TAGS, k=chance.randint(1, 2)))
    return opened * (size // len(opened)) + "text"


def crossed(chance: random.Random, size: int) -> str:
    """Tags that are closed in any order."""
    tags = chance.choices(_TAGS, k=chance.randint(2, 5))
    piece = "".join(f"<{tag}>" for tag in tags) + "x" + "".join(f"</{tag}>" for tag in chance.sample(tags, len(tags)))
    return piece * (size // len(piece) + 1)


def torn(chance: random.Random, size: int) -> str:
    """Pieces of mark-up in no order."""
    pieces = [
        *_PIECES,
        *(f"<{tag}" for tag in _TAGS),
        *(f"<{tag} a=b>" for tag in _TAGS),
        *(f"</{tag}>" for tag in _TAGS),
    ]
    return "".join(chance.choices(pieces, k=max(1, size // 6)))


def repeated(chance: random.Random, size: int) -> str:
    """One piece, over and over."""
    return chance.choice([*HOSTILE, *((piece,) for piece in _PIECES)])[0] * (size // 8)


def misnested(chance: random.Random, size: int) -> str:
    """A few start and end tags in one order, over and over."""
    tags = chance.choices(_TAGS, k=chance.randint(2, 5))
    tokens = [*(f"<{tag} a={{}}>" for tag in tags), *(f"</{tag}>" for tag in tags if chance.random() < 0.9), "x"]
    chance.shuffle(tokens)
    return numbered("".join(tokens), size)


def numbered(piece: str, size: int) -> str:
    """A piece, over and over, with its number in place of `{}`: about so many characters."""
    return "".join(piece.replace("{}", str(number)) for number in range(size // len(piece) + 1))


def hostile(form: tuple[str, ...], size: int) -> str:
    """A text of one of the HOSTILE forms: about so many characters."""
    piece, before, after, *second = form + ("",) * (3 - len(form))
    share = size // (1 + len(second))
    return before + numbered(piece, share) + "".join(numbered(each, share) for each in second) + after


HOSTILE: tuple[tuple[str, ...], ...] = (
    # Marks out of their order, by different ways to have them.
    ("\u0301", "a", "", "\u0316"),
    ("\u0301", "a", "", "\uff9e"),
    ("\u0301\u0316", "a"),
    ("\u0344", "a", "", "\u0316"),
    ("\u0345", "a", "", "\u0301"),
    ("e\u0301",),
    ("\u1100\u1161",),
    ("\ufdfa",),
    # Runs without an end, for segmentation and words.
    ("一",),
    ("龘",),
    ("中华人民共和国",),
    ("a",),
    ("a'",),
    ("1",),
    (" ",),
    ("\n",),
    ("ษ\u0e34",),
    ("\u0e34", "ษ"),
    ("a\u200d",),
    # Mark-up.
    ("<",),
    ("&",),
    ("&amp",),
    ("9", "&#"),
    ("<!--",),
    ("<![CDATA[",),
    ("<p a='",),
    ("a{}=b ", "<p ", ">x"),
    ("<p {}=b>",),
    ("<body a{}=b>",),
    ("</p>",),
    ("</x>", "<div>" * 400),
    ("<br>",),
    ("<p>x",),
    ("<div>x</div>",),
    ("<div>",),
    ("<b id={}>",),
    ("<li><ul>",),
    ("<dd>x<dt>", "<dl>"),
    ("<p>x", "<table>"),
    ("x<tr>", "<table>"),
    ("<table><tr><td>x",),
    ("<script>",),
    ("<svg>",),
    ("<svg><td>",),
    ("<optgroup>",),
    ("<frameset>",),
    # Tags that end elements in the eye of a reader, and not in a parser's.
    ("<b><i></b></i>",),
    ("<b {}><p>",),
    ("<span><div></span></div>",),
    ("<x><p></x></p>",),
    ("<b id={}><table>x</b></table>",),
    ("<table><b id={}><td></b></table>",),
    ("<div><select></div></select>",),
    ("<form><table></form></table><form></form></form>",),
    ("<noscript><li></noscript>",),
    ("<svg><desc><div></svg></div></desc><title><div>",),
    ("<svg><p><script><!--</script><div>",),
    # Pages with an article.
    *(
        (piece, "<html><body><article><p>", "</p></article></body></html>")
        for piece in (
            "The quick<br>",
            "<span>The quick</span> ",
            "<b>The</b> quick ",
            "<a href=x>The quick</a> ",
            "quick ",
        )
    ),
    *(
        (piece, "<html><body><article>", "</article></body></html>")
        for piece in (
            "<p>The quick brown fox.</p>",
            "<li>The quick</li>",
            "<h2>The quick</h2>",
            "<pre><code>x</code></pre>",
        )
    ),
)
"""Texts that take quadratic time where code is not careful: a piece, and what stands before, after, and in the second half."""

SHAPES: tuple[Shape, ...] = (nested, crossed, torn, repeated, misnested)


def markup(chance: random.Random, size: int) -> str:
    """A text of about so many characters, in one of SHAPES."""
    return chance.choice(SHAPES)(chance, size)


def deep(chance: random.Random, size: int) -> bytes:
    """JSON nested as deep as it is long, whole or cut."""
    opening, closing = chance.choice([(b"[", b"]"), (b'{"text":', b"}")])
    count = size // len(opening)
    return opening * count + b"1" + closing * chance.choice([0, count - 1, count])


def changed(chance: random.Random, value: bytes) -> bytes:
    """The value with some bytes changed, cut out or doubled."""
    raw = bytearray(value)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(raw) + 1)
        match chance.randrange(3):
            case 0:
                raw[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                del raw[at : at + chance.randint(1, 8)]
            case _:
                raw[at:at] = raw[at : at + chance.randint(1, 8)]
    return bytes(raw)


def value(chance: random.Random, size: int) -> bytes:
    """A value of about so many bytes."""
    match chance.randrange(6):
        case 0:
            return chance.randbytes(size)
        case 1:
            return deep(chance, size)
        case 2:
            return changed(chance, _document(chance, size))
        case 3:
            return b'{"text": ' + b"9" * size + b"}"
        case _:
            return _document(chance, size)


def _document(chance: random.Random, size: int) -> bytes:
    text = markup(chance, size).encode(errors="replace").decode()
    odd = chance.choice([None, [], {}, 1e308, -1, "\x00", "9" * 400, "[", "http://[", text[:50]])
    return orjson.dumps({"id": odd, "title": odd, "time": odd, "host": odd, "tags": [odd, text[:20]], "text": text})


def settings_of(markup: str, scheme: str) -> Settings:
    """Settings under which every field of a value is looked at."""
    return Settings.model_validate(
        {
            "decode": {
                "time": "/time",
                "title": "/title",
                "host": "/host",
                "metadata": ["/tags"],
                "value_bytes_max": 16 * 2**20,
            },
            "fingerprint": {"markup": markup, "scheme": scheme},
        }
    )


def record_outcomes(settings: Settings, lines: Callable[[bytes], list[bytes]]) -> Callable[[bytes], Counter[str]]:
    """Returns what decodes and fingerprints the values of an input, and counts what became of them."""
    decoder, fingerprinter = Decoder(settings.decode), scheme_for(settings)

    def look(made: bytes) -> Counter[str]:
        documents = decoder.decode([Record(Source("fuzz", 0), "fuzz", 0, None, each, 0) for each in lines(made)])
        fingerprint_documents(fingerprinter, documents)
        return Counter(Reason(each.reason).name if isinstance(each, DeadLetter) else "DOCUMENT" for each in documents)

    return look


Made = Callable[[random.Random, int], bytes]
Look = Callable[[bytes], Counter[str]]


def kind_of(asked: str, settings: Settings, folder: Path) -> tuple[Made, Look]:
    """What makes an input of about so many bytes, and what reads it and counts what became of it."""
    if asked == "archives":
        return fuzz_archives.archive, fuzz_archives.outcomes(settings)
    if asked == "parquet":
        return fuzz_parquet.file, record_outcomes(settings, lambda made: fuzz_parquet.lines(made, folder))
    return (fuzz_json.value if asked == "json" else value), record_outcomes(settings, lambda made: [made])


def main() -> int:
    """Run for as long as asked. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bytes-max", type=int, default=200_000)
    parser.add_argument("--ms-max", type=float, default=5_000.0)
    parser.add_argument("--of", choices=["archives", "json", "parquet", "values"], default="values")
    parser.add_argument("--markup", choices=["none", "html", "html-main"], default="html")
    parser.add_argument("--scheme", choices=["minhash", "simhash"], default="minhash")
    parser.add_argument("--under-way", type=Path, default=Path("fuzz-under-way"))
    asked = parser.parse_args()
    chance = random.Random(asked.seed)
    settings = settings_of(asked.markup, asked.scheme)
    outcomes: Counter[str] = Counter()
    slowest_ms, slowest = 0.0, b""
    deadline = time.monotonic() + asked.seconds
    with TemporaryDirectory() as folder:
        make, look = kind_of(asked.of, settings, Path(folder))
        while time.monotonic() < deadline:
            made = make(chance, int(asked.bytes_max ** chance.random()))
            asked.under_way.write_bytes(made)
            begin = time.process_time()
            found = look(made)
            # The first value compiles and loads.
            took_ms = 1000 * (time.process_time() - begin) if outcomes else 0.0
            if took_ms > slowest_ms:
                slowest_ms, slowest = took_ms, made
            outcomes += found
    asked.under_way.unlink(missing_ok=True)
    print(f"{outcomes.total():,} values: {', '.join(f'{name} {count:,}' for name, count in outcomes.most_common())}")
    print(f"slowest: {slowest_ms:,.0f} ms of processor time, {len(slowest):,} bytes, {slowest[:80]!r}")
    return int(slowest_ms > asked.ms_max)


if __name__ == "__main__":
    sys.exit(main())
