"""Precision and recall of the running service, over sets that are produced in order to a real broker.

    python -m bench.kafka_accuracy SET [--setting NAME ...] [--json]

Sets, settings and scores are those of `bench.accuracy`. The decisions are read back from the service's output topics, which
together must hold every input position exactly once.
"""

import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import click
import numpy as np
import orjson
from rich.console import Console
from rich.table import Table

from bench.accuracy import Stream, figures
from bench.conditions import machine
from bench.documents import document_lines
from bench.named_settings import NAMED, Setting
from bench.ready import wait_until_ready
from deploy.kafka_run import DESTINATIONS, Outputs, Run, create_topics, fill, stop
from deploy.local_kafka import LocalKafka
from streamer.settings.types import Section

RUN_TIMEOUT_SECONDS = 600


def overrides(setting: Setting) -> tuple[str, ...]:
    """Setting of the accuracy bench as the service's own settings; an empty text stands for an unset one."""
    if setting.insert == "all":
        raise click.BadParameter(f"{setting.name}: no service enters all documents.")
    settings = setting.settings
    sections: dict[str, Section] = {"fingerprint": settings.fingerprint}
    if settings.fingerprint.scheme == "minhash":
        sections["minhash"] = settings.minhash
    else:
        sections["second_look"] = settings.second_look
    chosen = [
        f"{section}.{key}={'' if value is None else value}"
        for section, values in sections.items()
        for key, value in values.model_dump().items()
    ]
    if settings.fingerprint.scheme == "simhash":
        chosen.append(f"index.distance_max={settings.index.distance_max}")
    return (*chosen, f"index.insert={setting.insert}")


def filtered(stream: Stream, run: Run, setting: Setting, count: int) -> dict[str, Any]:
    """Let the service filter the whole input, and score the outputs."""
    outputs = Outputs(run)
    process = run.start(run.directory / f"{run.name}.log")
    wait_until_ready(run, process)
    begin = time.monotonic()
    if not outputs.wait_for(count, RUN_TIMEOUT_SECONDS):
        raise click.ClickException(f"{len(outputs.by_position)} of {count} came out")
    seconds = time.monotonic() - begin
    stop(process)
    outputs.close()
    if any(len(seen) != 1 for seen in outputs.by_position.values()):
        raise click.ClickException("a position came out twice")
    originals = np.full(count, -1, np.int64)
    verdicts: Counter[str] = Counter()
    for position, ((_, _, pairs),) in outputs.by_position.items():
        headers, row = dict(pairs), int(position.rsplit("/", 1)[1])
        verdict = headers["neardup.verdict"].decode()
        verdicts[verdict] += 1
        if verdict == "duplicate":
            originals[row] = int(headers["neardup.original.position"].rsplit(b"/", 1)[1])
    return {
        "setting": setting.name,
        **{label: verdicts[label] for label in ("unique", "duplicate", "undecidable", "dead-letter")},
        **figures(stream.judge(originals, setting.insert)),
        "documents_per_second": count / seconds,
    }


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--setting", "settings", multiple=True, default=("default",), type=NAMED, help="May be repeated.")
@click.option("--json", "as_json", is_flag=True)
def main(folder: Path, settings: tuple[Setting, ...], as_json: bool) -> None:
    stream = Stream(folder)
    results = []
    with tempfile.TemporaryDirectory(prefix="kafka-accuracy-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        with LocalKafka(directory / "kafka") as broker:
            create_topics(broker.bootstrap_servers, ["documents"])
            count = fill(broker.bootstrap_servers, "documents", document_lines([folder / "docs.jsonl.xz"]))
            for number, chosen in enumerate(settings):
                run = Run(f"run-{number}", broker.bootstrap_servers, "documents", directory, 19_466, overrides(chosen))
                create_topics(broker.bootstrap_servers, [run.topic(destination) for destination in DESTINATIONS])
                results.append(filtered(stream, run, chosen, count))
    if as_json:
        click.echo(orjson.dumps({"conditions": machine(), "set": folder.name, "results": results}))
        return
    table = Table(*results[0])
    for result in results:
        table.add_row(*(f"{value:,.4f}" if isinstance(value, float) else str(value) for value in result.values()))
    Console(width=200).print(f"{folder.name}: {count:,} documents, in order, through a real broker", table)


if __name__ == "__main__":
    main()
