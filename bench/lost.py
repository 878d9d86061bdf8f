"""Sentences lost: how much of the input stands in no kept document, by the filter and by rensa.

    python -m bench.lost FOLDER [FOLDER ...] [--peer NAME ...] [--set SETTING ...] [--json]

A folder has `docs.jsonl.xz` (id, text, in stream order). The filter goes the whole way over files, as shipped and by its public
key; a peer reads the same lines as in `bench.peers`. What a program calls a duplicate is dropped, all else is kept.
`streamer.evaluation.sentences` has the definition.
"""

import tempfile
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
import orjson
from rich.console import Console
from rich.table import Table

from bench.conditions import read_lines
from bench.peers import PEERS, by_filter, task_of, texts_of
from streamer.evaluation.sentences import sentences_lost
from streamer.observe.logs import configure_logging
from streamer.settings.settings import load
from streamer.text.normalisation import Normaliser


def measure(folder: Path, peers: tuple[str, ...], overrides: tuple[str, ...]) -> list[dict[str, Any]]:
    """A row for each program."""
    rows = list(read_lines(folder / "docs.jsonl.xz"))
    texts = [str(row["text"]) for row in rows]
    dropped: dict[str, npt.NDArray[np.bool_]] = {}
    with tempfile.TemporaryDirectory(prefix="lost-") as name:
        lines = Path(name) / "in.jsonl"
        lines.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
        settings = load(None, [f"index.directory={name}/index", "fingerprint.key=public", *overrides], {})
        by_filter(lines, Path(name) / "out", settings)
        verdicts = map(orjson.loads, (Path(name) / "out" / "verdicts.jsonl").read_bytes().splitlines())
        dropped["filter"] = np.array([verdict["verdict"] == "duplicate" for verdict in verdicts], np.bool_)
        for peer in peers:
            dropped[peer] = PEERS[peer](texts_of(lines), task_of(texts, settings))[0] >= 0
    normaliser = Normaliser(settings.fingerprint)
    return [
        {
            "set": folder.name,
            "program": program,
            "documents": len(texts),
            "dropped": int(each.sum()),
            **sentences_lost(texts, ~each, normaliser).as_json(),
        }
        for program, each in dropped.items()
    ]


@click.command(help=__doc__)
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--peer", "peers", multiple=True, type=click.Choice(list(PEERS)), default=("rensa",), show_default=True)
@click.option("--set", "overrides", multiple=True, help="A setting of the filter.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def main(folders: tuple[Path, ...], peers: tuple[str, ...], overrides: tuple[str, ...], as_json: bool) -> None:
    configure_logging("warning", "console")
    results = [row for folder in folders for row in measure(folder, peers, overrides)]
    if as_json:
        click.echo(orjson.dumps(results, option=orjson.OPT_INDENT_2))
        return
    table = Table(*results[0], box=None)
    for result in results:
        table.add_row(*(f"{value:,}" if isinstance(value, int | float) else value for value in result.values()))
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
