"""Real sites whose pages share templates, decided by an index on disk: what is kept of them, by policy.

    python -m bench.sites SITE... [--pages 4000] [--json]

A SITE is a package of Debian with documentation, HTML pages or manual pages; it is fetched into the cache, not installed.
Or it is a file of JSON lines, also packed by xz, with `text` or `html`. Equal texts are taken once. Up to 200 pages come again
with three words changed, everything in random order, the same one each time.

The truth is exact: the Jaccard similarity of runs of words, of all pairs (`streamer.evaluation.join`). A page whose
near-duplicates come later is none. `lost` are dropped pages that by the truth are none (below .8), `missed` kept ones that are.
"""

import gzip
import lzma
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt
import orjson
from rich.console import Console
from rich.table import Table

from bench.incident import POLICIES, verdicts_of
from deploy.debian_packages import unpacked
from index import Verdict
from streamer.evaluation.join import similar_pairs, tokens_in_a_run
from streamer.fingerprint.scheme import scheme_for
from streamer.settings.settings import Settings
from streamer.text.normalisation import visible_text

TRUTH_MIN = 0.8
COPIES = 200
CHANGED = 3
CHARACTERS_MIN = 40

_ROFF = re.compile(r"^[.'](?:\\\".*|[A-Za-z]{1,3}\b ?)|\\f.|\\-|\\&", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of one site with one policy.

    pages        distinct texts
    near         pages that by the truth have an earlier near-duplicate
    kept         pages that were not dropped
    lost         dropped pages that by the truth have none
    missed       kept pages that by the truth have one
    by_template  pages that resembled another one, and were unique by a frame alone
    copies       pages that came again with words changed
    found        of these, at most one text of which was kept
    """

    site: str
    policy: str
    pages: int
    near: int
    kept: int
    lost: int
    missed: int
    by_template: int
    copies: int
    found: int


def texts_of(site: str, pages: int) -> list[str]:
    """Distinct texts of a site, at most `pages`, in random order."""
    found = [text for text in dict.fromkeys(map(str.strip, _texts(site))) if len(text) >= CHARACTERS_MIN]
    random.Random(1).shuffle(found)
    return found[:pages]


def _texts(site: str) -> Iterator[str]:
    if site.endswith((".jsonl", ".jsonl.xz")):
        with lzma.open(site) if site.endswith(".xz") else Path(site).open("rb") as lines:
            for line in lines:
                document = orjson.loads(line)
                yield document["text"] if "text" in document else visible_text(document["html"])
        return
    folder = unpacked(site, f"site-{site}", "name another package")
    for file in sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()):
        if file.suffix in (".html", ".htm"):
            yield visible_text(file.read_text("utf-8", "replace"))
        elif file.suffix == ".gz" and "man" in file.parts:
            yield _ROFF.sub("", gzip.decompress(file.read_bytes()).decode("utf-8", "replace"))


def with_copies(texts: Sequence[str]) -> tuple[list[str], npt.NDArray[np.int64]]:
    """The texts and edited copies of some, in random order; and the page that each is, or is a copy of: int64 [n]."""
    dice = random.Random(3)
    crawled = list(enumerate(texts))
    vocabulary = [word for text in dice.sample(texts, min(50, len(texts))) for word in re.findall(r"\w+", text)]
    for page in dice.sample(range(len(texts)), min(COPIES, len(texts) // 2)):
        parts = re.split(r"(\s+)", texts[page])
        words = [place for place in range(0, len(parts), 2) if parts[place]]
        for place in dice.sample(words, min(CHANGED, len(words))):
            parts[place] = dice.choice(vocabulary)
        crawled.append((page, "".join(parts)))
    dice.shuffle(crawled)
    return [text for _, text in crawled], np.array([page for page, _ in crawled], np.int64)


def outcomes(site: str, pages: int) -> Iterator[Outcome]:
    """Outcome of every policy on one site."""
    texts = texts_of(site, pages)
    scheme, name = scheme_for(Settings()), Path(site).name
    largest, _ = similar_pairs(texts, TRUTH_MIN, tokens_in_a_run(texts)).nearest(len(texts))
    near = largest >= TRUTH_MIN
    stream, of_page = with_copies(texts)
    prints, of_stream = scheme.fingerprint(texts), scheme.fingerprint(stream)
    twice = np.bincount(of_page, minlength=len(texts)) == 2
    for policy in POLICIES:
        verdicts, _ = verdicts_of(prints, policy, [name] * len(texts))
        dropped = verdicts == Verdict.DUPLICATE
        kept = np.bincount(
            of_page[verdicts_of(of_stream, policy, [name] * len(stream))[0] != Verdict.DUPLICATE], minlength=len(texts)
        )
        counts = (
            near,
            ~dropped,
            dropped & ~near,
            ~dropped & near,
            verdicts == Verdict.TEMPLATE,
            twice,
            twice & (kept < 2),
        )
        yield Outcome(name, policy, len(texts), *(int(np.count_nonzero(each)) for each in counts))


@click.command(help=__doc__)
@click.argument("sites", nargs=-1, required=True, metavar="SITE...")
@click.option("--pages", default=4_000, show_default=True, type=click.IntRange(2), help="Pages of a site, at most.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def main(sites: tuple[str, ...], pages: int, as_json: bool) -> None:
    found = [each for site in sites for each in outcomes(site, pages)]
    if as_json:
        click.echo(orjson.dumps([asdict(each) for each in found], option=orjson.OPT_INDENT_2))
        return
    rows = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("site", "policy"):
        rows.add_column(heading)
    for heading in ("pages", "near", "kept", "lost", "missed", "by template", "copies found"):
        rows.add_column(heading, justify="right")
    for each in found:
        numbers = (each.pages, each.near, each.kept, each.lost, each.missed, each.by_template)
        rows.add_row(each.site, each.policy, *(f"{number:,}" for number in numbers), f"{each.found} of {each.copies}")
    Console(width=130).print(rows)


if __name__ == "__main__":
    main()
