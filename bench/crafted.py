"""Lines crafted against the public hash, pasted under articles and under copies: what they do by each key, and to rensa.

    python -m bench.crafted [--articles 400] [--copies 150] [--json]

Both languages, lines of several lengths. Each letter of a line is chosen so that its shingle has the least hash of one more
bin. `lost` counts articles of 400 hosts that were dropped because all have the line; 0 is right. `hidden` counts copies with
the line that were kept; 0 is right. `recognised` counts articles whose reason is `crafted`. The secret key is another one
than the line was crafted for, and rensa another program. Longer versions are dropped here: a line of a tenth of its article's
letters makes one.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import click
import numpy as np
import orjson
from rich.console import Console
from rich.table import Table

from bench.incident import LONGER_DROPPED, verdicts_of
from bench.peers import by_rensa, task_of
from deploy.crafted_line import crafted_line
from deploy.made_up_site import LANGUAGES, Language, reprints
from index import Verdict
from streamer.fingerprint.key import KEY_BYTES, PUBLIC, HashKey
from streamer.fingerprint.minhash.minhash import MinHasher
from streamer.records.reason import Reason
from streamer.settings.settings import Settings

LENGTHS = {"zh": (12, 24, 48, 132), "en": (36, 72, 141, 393)}
KEYS = {"public": PUBLIC, "secret": HashKey.of(bytes(KEY_BYTES))}
RENSA = "rensa"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of one line, by one key or by rensa."""

    language: str
    letters: int
    bins_won: int
    by: str
    articles: int
    recognised: int
    lost: int
    copies: int
    hidden: int


def outcomes(language: Language, letters: int, articles: int, copies: int) -> Iterator[Outcome]:
    """Outcome by every key, and by rensa."""
    line, won = crafted_line(language, letters)
    texts = reprints(language, 0, articles=articles, hosts=1).texts
    hosts = [f"host-{number}.example" for number in range(articles + copies)]
    pasted = [f"{text}\n{line}" for text in texts]
    copied = [*texts, *pasted[:copies]]
    for name, key in KEYS.items():
        hasher = MinHasher(Settings().minhash, key=key)
        prints = hasher.fingerprint(pasted)
        recognised = int(np.count_nonzero(prints.reasons == Reason.CRAFTED))
        lost, found = (
            verdicts_of(each, LONGER_DROPPED, hosts)[0] == Verdict.DUPLICATE
            for each in (prints, hasher.fingerprint(copied))
        )
        counts = (articles, recognised, int(lost.sum()), copies, int((~found[articles:]).sum()))
        yield Outcome(language, letters, won, name, *counts)
    asked = task_of(texts, Settings())
    lost, found = by_rensa(pasted, asked)[0] >= 0, by_rensa(copied, asked)[0][articles:] >= 0
    yield Outcome(language, letters, won, RENSA, articles, 0, int(lost.sum()), copies, int((~found).sum()))


@click.command(help=__doc__)
@click.option("--articles", default=400, show_default=True, type=click.IntRange(2))
@click.option("--copies", default=150, show_default=True, type=click.IntRange(1))
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def main(articles: int, copies: int, as_json: bool) -> None:
    copies = min(copies, articles)
    results = [
        each
        for language in LANGUAGES
        for letters in LENGTHS[language]
        for each in outcomes(language, letters, articles, copies)
    ]
    if as_json:
        click.echo(orjson.dumps([asdict(each) for each in results], option=orjson.OPT_INDENT_2))
        return
    rows = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("language", "letters", "bins won", "by"):
        rows.add_column(heading)
    for heading in ("recognised", "articles lost", "copies hidden"):
        rows.add_column(heading, justify="right")
    for each in results:
        names = (each.language, f"{each.letters}", f"{each.bins_won}", each.by)
        counts = (f"{each.recognised}", f"{each.lost} of {each.articles}", f"{each.hidden} of {each.copies}")
        rows.add_row(*names, *counts)
    Console().print(rows)


if __name__ == "__main__":
    main()
