"""One article on many hosts, each with a frame of its own: how many copies of each an index keeps, by policy.

    python -m bench.reprints [--articles 20] [--hosts 100] [--frames 0.02,0.05,0.08,0.12] [--frames-vary] [--known 0]
                             [--over index] [--json]

Both languages, each share of the frame in the page, and the policies of `bench.incident`, also without `index.longer`; 1 copy of
each article is right. With `--frames-vary` each host's share is drawn from 0 to twice the share.
Before the articles every host shows `known` pages of its own in its frame. `lost` counts those that were dropped; 0 is right.

`--over files` runs `streamer filter`, `--over kafka` two workers of `streamer run` on two partitions of a real broker; both by
the default policy.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import numpy as np
import orjson
from rich.console import Console
from rich.table import Table

from bench.incident import LONGER_DROPPED, POLICIES, verdicts_of
from deploy.kafka_run import DESTINATIONS, Run, create_topics
from deploy.local_kafka import LocalKafka, free_port
from deploy.made_up_site import LANGUAGES, Language, Reprints, reprints
from deploy.reprint_runs import Dropped, by_filter, by_service, copies_kept
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


def by_index(crawled: Reprints) -> Iterator[tuple[str, Dropped]]:
    """Every policy, and what an index of it drops."""
    prints = scheme_for(Settings()).fingerprint(crawled.texts)
    for policy in (*POLICIES, LONGER_DROPPED):
        verdicts, _ = verdicts_of(prints, policy, crawled.hosts)
        yield policy, verdicts == Verdict.DUPLICATE


def outcomes(
    language: Language,
    frame_share: float,
    articles: int,
    hosts: int,
    known: int,
    decided: Callable[[Reprints], Iterator[tuple[str, Dropped]]] = by_index,
    *,
    frames_vary: bool = False,
) -> Iterator[Outcome]:
    """Outcome of every policy that `decided` gives."""
    counts = {"articles": articles, "hosts": hosts, "earlier_pages": known}
    crawled = reprints(language, frame_share, **counts, frames_vary=frames_vary)
    for policy, dropped in decided(crawled):
        kept = copies_kept(crawled, dropped)
        lost = int(np.count_nonzero(dropped & (crawled.articles < 0)))
        found = (float(kept.mean()), int(kept.max()), lost)
        yield Outcome(language, frame_share, policy, articles, hosts, known, *found)


class Broker:
    """A broker that is started for the first crawl, and decides each by a service of its own."""

    def __init__(self, until: ExitStack) -> None:
        self._until = until
        self._directory = Path(until.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        self._servers = ""
        self._runs = 0

    def decided(self, crawled: Reprints) -> Iterator[tuple[str, Dropped]]:
        """See `by_service`."""
        if not self._servers:
            self._servers = self._until.enter_context(LocalKafka(self._directory / "kafka")).bootstrap_servers
        self._runs += 1
        name = f"run-{self._runs}"
        run = Run(name, self._servers, f"{name}-input", self._directory, free_port(), ("workers.count=2",))
        create_topics(self._servers, [run.topic(destination) for destination in DESTINATIONS])
        create_topics(self._servers, [run.input_topic], partitions=2)
        yield "templates", by_service(crawled, run)


@click.command(help=__doc__)
@click.option("--articles", default=20, show_default=True, type=click.IntRange(1))
@click.option("--hosts", default=100, show_default=True, type=click.IntRange(2))
@click.option("--frames", default="0.02,0.05,0.08,0.12", show_default=True, help="Shares of the frame, by commas.")
@click.option(
    "--known", default=0, show_default=True, type=click.IntRange(0), help="Pages of a host before the articles."
)
@click.option(
    "--over", default="index", show_default=True, type=click.Choice(["index", "files", "kafka"]), help="What decides."
)
@click.option("--frames-vary", is_flag=True, help="Frames from nothing to twice the share.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def main(articles: int, hosts: int, frames: str, known: int, over: str, frames_vary: bool, as_json: bool) -> None:
    shares = [float(share) for share in frames.split(",")]
    with ExitStack() as until:
        decided = {
            "index": by_index,
            "files": lambda crawled: iter([("templates", by_filter(crawled))]),
            "kafka": Broker(until).decided,
        }[over]
        found = [
            each
            for language in LANGUAGES
            for share in shares
            for each in outcomes(language, share, articles, hosts, known, decided, frames_vary=frames_vary)
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
