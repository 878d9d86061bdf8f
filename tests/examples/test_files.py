"""The cron job of the examples."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

TEXT = (
    "The lighthouse keeper counted forty ships that night, more than in any night since the canal was opened to tankers. "
    "In the morning the fog came, and nobody could see the other side of the bay until the wind turned in the afternoon."
)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A folder with the command `streamer`, as an installation has it."""
    made = tmp_path / "bin" / "streamer"
    made.parent.mkdir()
    made.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m streamer "$@"\n')
    made.chmod(0o755)
    return made.parent


def night(tmp_path: Path, program: Path) -> None:
    command = [str(ROOT / "examples" / "files" / "nightly.sh"), "incoming", "filtered"]
    path = os.pathsep.join([str(program), os.environ["PATH"]])
    subprocess.run(command, cwd=tmp_path, env=os.environ | {"PATH": path}, check=True, timeout=200)


def arrive(tmp_path: Path, name: str, *texts: str) -> None:
    lines = [json.dumps({"id": f"{name}-{number}", "text": text}) + "\n" for number, text in enumerate(texts)]
    (tmp_path / "incoming").mkdir(exist_ok=True)
    (tmp_path / "incoming" / f"{name}.jsonl.gz").write_bytes(gzip.compress("".join(lines).encode()))


def test_each_night_filters_what_is_new_against_all_nights_before(tmp_path: Path, program: Path) -> None:
    arrive(tmp_path, "monday", TEXT, f"Nothing of the kind. {TEXT[::-1]}")
    night(tmp_path, program)
    arrive(tmp_path, "tuesday", f"{TEXT} So it is told.")
    night(tmp_path, program)
    night(tmp_path, program)

    kept = {path.parent.name: path.read_text().count("\n") for path in tmp_path.glob("filtered/*/unique.jsonl")}
    assert kept == {"monday": 2, "tuesday": 0}
    dropped = (tmp_path / "filtered" / "tuesday" / "verdicts.jsonl").read_text()
    assert json.loads(dropped)["original"] == "monday-0"
    assert sorted(path.name for path in (tmp_path / "incoming" / "done").iterdir()) == [
        "monday.jsonl.gz",
        "tuesday.jsonl.gz",
    ]
