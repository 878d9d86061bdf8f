"""A crawl on this machine, fetched page by page, filtered, and compared with its plan.

    python -m bench.crawl [--charsets 10] [--json]

The pages and the plan are those of `deploy.made_up_crawl`.
"""

import tempfile
from dataclasses import asdict
from pathlib import Path

import click
import orjson
from rich.console import Console
from rich.table import Table

from deploy.made_up_crawl import CHARSETS, SETTINGS, compared, crawl, outcomes_of, plan
from streamer.observe.logs import configure_logging
from streamer.service.file_job import filter_files
from streamer.settings.settings import Settings


@click.command(help=__doc__)
@click.option("--charsets", default=len(CHARSETS), show_default=True, type=click.IntRange(1, len(CHARSETS)))
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def main(charsets: int, as_json: bool) -> None:
    configure_logging("warning", "console")
    fetches = plan(list(CHARSETS)[:charsets])
    with tempfile.TemporaryDirectory() as folder:
        archive, out = Path(folder) / "crawl.warc.gz", Path(folder) / "out"
        crawl(fetches, archive)
        settings = Settings.model_validate({**SETTINGS, "index": {"directory": Path(folder) / "index"}})
        filter_files(settings, [archive], out, Console(stderr=True, quiet=as_json))
        kinds = compared(fetches, outcomes_of(out))
    if as_json:
        click.echo(orjson.dumps([asdict(kind) for kind in kinds], option=orjson.OPT_INDENT_2))
        return
    rows = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("fetch", "planned"):
        rows.add_column(heading)
    for heading in ("fetches", "right"):
        rows.add_column(heading, justify="right")
    for kind in kinds:
        rows.add_row(kind.kind, " or ".join(kind.outcomes), f"{kind.fetches:,}", f"{kind.right:,}")
    Console().print(rows)


if __name__ == "__main__":
    main()
