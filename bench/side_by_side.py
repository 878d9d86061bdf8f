"""Methods and other programs in one table, in one run: F1 on every set, and in brackets the false duplicates.

    python -m bench.side_by_side SET [SET ...] [--setting NAME ...] [--peer NAME ...] [--json]

Sets are streams or labelled pairs, as `bench.accuracy` reads them, and are called by the names of their folders. Settings
are named as there; those of the filter are all presets unless some are named. Peers are those of `bench.peers`. They
have the task of both schemes as they are without a second look: a similarity of .7, a distance of 4, by their own accuracy.
All of them keep unique documents alone. The last column adds up the false duplicates of the streams.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import orjson
from rich.progress import track

from bench.accuracy import AllPairs, Labelled, Stream, figures, open_sets
from bench.conditions import PROGRESS, machine
from bench.named_settings import NAMED, Setting
from bench.peers import PEERS, SCHEMES, task_of
from streamer.evaluation.scores import Scores
from streamer.settings.presets import METHOD_PRESETS
from streamer.settings.settings import load

_METHODS = tuple(name for name in METHOD_PRESETS if name != "keep-text")
"""Presets that differ in likeness. What a drop may lose is for `bench.lost`."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What one row reaches on one set."""

    row: str
    set_name: str
    is_stream: bool
    score: Scores

    def as_dict(self) -> dict[str, object]:
        """The figures, by name."""
        return {
            "row": self.row,
            "set": self.set_name,
            **figures(self.score),
            "false_duplicates": self.score.false_duplicates,
        }


def cells(each: Labelled, settings: Sequence[Setting], peers: Sequence[str]) -> Iterator[Cell]:
    """The column of one set: settings, then peers."""
    is_stream = isinstance(each, Stream)
    for setting in track(settings, description=each.name, console=PROGRESS):
        yield Cell(setting.name, each.name, is_stream, each.run(setting).scores)
    for peer in track(peers, description=f"{each.name}, peers", console=PROGRESS):
        yield Cell(f"peer: {peer}", each.name, is_stream, peer_score(each, peer))


def peer_score(each: Labelled, peer: str) -> Scores:
    """How a peer decides on a stream, or on every pair by itself."""
    texts, others = ([document.text for document in side or ()] for side in (each.whole.documents, each.whole.others))
    asked = task_of(texts, load(None, SCHEMES["simhash"], {}))
    if not others:
        return each.judge(PEERS[peer](texts, asked)[0], "unique")
    pairs = zip(texts, others, strict=True)
    return each.judge(np.array([PEERS[peer](pair, asked)[0][1] for pair in pairs], np.int64), "unique")


def table(found: Sequence[Cell]) -> str:
    """The cells as a table in Markdown, rows and sets in their order."""
    sets = list(dict.fromkeys(cell.set_name for cell in found))
    lines = ["| | " + " | ".join(sets) + " | false of all streams |", "|---" * (len(sets) + 2) + "|"]
    for row in dict.fromkeys(cell.row for cell in found):
        own = {cell.set_name: cell for cell in found if cell.row == row}
        shown = [f"{own[name].score.f1.value:.3f} ({own[name].score.false_duplicates})" for name in sets]
        false = sum(cell.score.false_duplicates for cell in own.values() if cell.is_stream)
        lines.append(f"| {row} | {' | '.join(shown)} | {false:,} |")
    return "\n".join(lines)


@click.command(help=__doc__)
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--setting", "settings", multiple=True, default=_METHODS, type=NAMED, help="May be repeated.")
@click.option("--peer", "peers", multiple=True, default=tuple(PEERS), type=click.Choice(list(PEERS)))
@click.option("--json", "as_json", is_flag=True, help="Machine-readable results instead of a table.")
def main(folders: tuple[Path, ...], settings: tuple[Setting, ...], peers: tuple[str, ...], as_json: bool) -> None:
    found: list[Cell] = []
    for folder in folders:
        for each in open_sets(folder):
            if isinstance(each, AllPairs):
                raise click.BadParameter(f"{folder}: no stream and no labelled pairs.")
            found += cells(each, settings, peers)
    if as_json:
        answer = {"conditions": machine(), "results": [cell.as_dict() for cell in found]}
        click.echo(orjson.dumps(answer, option=orjson.OPT_INDENT_2))
    else:
        click.echo(table(found))


if __name__ == "__main__":
    main()
