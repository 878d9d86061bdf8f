"""The cron job and the table of the examples."""

import datetime
import gzip
import json
import os
import subprocess
from pathlib import Path

import pyarrow as arrow
import pytest
from pyarrow import parquet

from tests.support.installation import Installation
from tests.support.paths import ROOT

TEXT = (
    "The lighthouse keeper counted forty ships that night, more than in any night since the canal was opened to tankers. "
    "In the morning the fog came, and nobody could see the other side of the bay until the wind turned in the afternoon."
)


@pytest.fixture
def program(tmp_path: Path, installation: Installation) -> Path:
    """A folder with the command `streamer`, as an installation has it."""
    if installation.is_release:
        return Path(installation.python).parent
    made = tmp_path / "bin" / "streamer"
    made.parent.mkdir()
    made.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{installation.python}" -m streamer "$@"\n')
    made.chmod(0o755)
    return made.parent


def run(command: list[str], tmp_path: Path, program: Path, installation: Installation) -> None:
    path = os.pathsep.join([str(program), os.environ["PATH"]])
    subprocess.run(command, cwd=tmp_path, env=installation.variables | {"PATH": path}, check=True, timeout=200)


def night(tmp_path: Path, program: Path, installation: Installation) -> None:
    run([str(ROOT / "examples" / "files" / "nightly.sh"), "incoming", "filtered"], tmp_path, program, installation)


def arrive(tmp_path: Path, name: str, *texts: str) -> None:
    lines = [json.dumps({"id": f"{name}-{number}", "text": text}) + "\n" for number, text in enumerate(texts)]
    (tmp_path / "incoming").mkdir(exist_ok=True)
    (tmp_path / "incoming" / f"{name}.jsonl.gz").write_bytes(gzip.compress("".join(lines).encode()))


def test_each_night_filters_what_is_new_against_all_nights_before(
    tmp_path: Path, program: Path, installation: Installation
) -> None:
    arrive(tmp_path, "monday", TEXT, f"Nothing of the kind. {TEXT[::-1]}")
    night(tmp_path, program, installation)
    arrive(tmp_path, "tuesday", f"{TEXT} So it is told.")
    night(tmp_path, program, installation)
    night(tmp_path, program, installation)

    kept = {path.parent.name: path.read_text().count("\n") for path in tmp_path.glob("filtered/*/unique.jsonl")}
    assert kept == {"monday": 2, "tuesday": 0}
    dropped = (tmp_path / "filtered" / "tuesday" / "verdicts.jsonl").read_text()
    assert json.loads(dropped)["original"] == "monday-0"
    assert sorted(path.name for path in (tmp_path / "incoming" / "done").iterdir()) == [
        "monday.jsonl.gz",
        "tuesday.jsonl.gz",
    ]


def test_the_rows_of_a_table_that_are_kept_are_those_of_the_table(
    tmp_path: Path, program: Path, installation: Installation
) -> None:
    rows = [
        {"key": "a", "views": 2**60, "body": TEXT, "seen": datetime.date(2026, 11, 22)},
        {"key": "b", "views": None, "body": f"Nothing of the kind. {TEXT[::-1]}", "seen": None},
        {"key": "c", "views": 3, "body": f"{TEXT} So it is told.", "seen": datetime.date(2026, 11, 23)},
        {"key": "d", "views": 4, "body": None, "seen": None},
    ]
    table = arrow.Table.from_pylist(rows)
    parquet.write_table(table, tmp_path / "pages.parquet")
    example = str(ROOT / "examples" / "parquet" / "unique_rows.py")
    settings = ["decode.text=/body", "decode.id=/key"]
    command = [installation.python, example, "pages.parquet", "kept.parquet", "filtered", *settings]
    run(command, tmp_path, program, installation)

    kept = parquet.read_table(tmp_path / "kept.parquet")
    assert kept.to_pylist() == rows[:2]
    assert kept.schema.names == table.schema.names
    assert (kept.schema.field("views").type, kept.schema.field("seen").type) == (arrow.int64(), arrow.date32())
    dropped = parquet.read_table(tmp_path / "dropped-kept.parquet").to_pylist()
    assert [(row["key"], row["verdict"], row["original"]) for row in dropped] == [
        ("c", "duplicate", "a"),
        ("d", "dead-letter", None),
    ]
