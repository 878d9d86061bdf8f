"""One article on many hosts, each with a frame of its own: how many copies of each an index keeps, by policy.

    python -m bench.reprints [--articles 20] [--hosts 100] [--frames 0.02,0.05,0.08,0.12] [--known 0] [--json]

Both languages, each share of the frame in the page, and the policies of `bench.incident`; 1 copy of each article is right.
Before the articles every host shows `known` pages of its own in its frame. `lost` counts those that were dropped; 0 is right.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import click
import numpy as np
import orjson
from rich.console import Console
from rich.table import Table

from bench.incident import POLICIES, verdicts_of
from deploy.made_up_site import LANGUAGES, Language, Reprints, reprints
from index import Verdict
from streamer.fingerprint.scheme import scheme_for
from streamer.settings.settings import Settings


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of one policy.

    kept  copies of an article that were kept, in the mean
    most  copies kept of the article of which most were
    lost  pages of the hosts' own that were dropped
    """

    language: str
    frame_share: float
    policy: str
    articles: int
    hosts: int
    known: int
    kept: float
    most: int
    lost: int


def outcomes(language: Language, frame_share: float, articles: int, hosts: int, known: int) -> Iterator[Outcome]:
    """Outcome of every policy."""
    crawled: Reprints = reprints(language, frame_share, articles=articles, hosts=hosts, known=known)
    prints, of_article = scheme_for(Settings()).fingerprint(crawled.texts), crawled.articles >= 0
    for policy in POLICIES:
        verdicts, _ = verdicts_of(prints, policy, crawled.hosts)
        delivered = verdicts != Verdict.DUPLICATE
        kept = np.bincount(crawled.articles[of_article & delivered], minlength=articles)
        lost = int(np.count_nonzero(~of_article & ~delivered))
        counts = (articles, hosts, known, float(kept.mean()), int(kept.max()), lost)
        yield Outcome(language, frame_share, policy, *counts)


@click.command(help=__doc__)
@click.option("--articles", default=20, show_default=True, type=click.IntRange(1))
@click.option("--hosts", default=100, show_default=True, type=click.IntRange(2))
@click.option("--frames", default="0.02,0.05,0.08,0.12", show_default=True, help="Shares of the frame, by commas.")
@click.option(
    "--known", default=0, show_default=True, type=click.IntRange(0), help="Pages of a host before the articles."
)
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def main(articles: int, hosts: int, frames: str, known: int, as_json: bool) -> None:
    shares = [float(share) for share in frames.split(",")]
    found = [
        each for language in LANGUAGES for share in shares for each in outcomes(language, share, articles, hosts, known)
    ]
    if as_json:
        click.echo(orjson.dumps([asdict(each) for each in found], option=orjson.OPT_INDENT_2))
        return
    rows = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("language", "frame", "policy"):
        rows.add_column(heading)
    for heading in ("kept of each", "most", "own pages lost"):
        rows.add_column(heading, justify="right")
    for each in found:
        numbers = (f"{each.kept:.2f}", f"{each.most}", f"{each.lost} of {each.known * each.hosts:,}")
        rows.add_row(each.language, f"{each.frame_share:.0%}", each.policy, *numbers)
    Console().print(rows)


if __name__ == "__main__":
    main()
