"""Installing with uv, and with pip if uv fails. Stand-ins for both say what they are asked."""

import subprocess
from pathlib import Path

import pytest

from tests.support.paths import ROOT

FETCHED = "Downloading pyarrow (52.5MiB)\nDownloading lz4 (1.3MiB)\n + pyarrow==26.0.1"


def install(directory: Path, uv: int, pip: int) -> subprocess.CompletedProcess[str]:
    """Install in a folder whose uv and pip end with these codes."""
    programs = {
        "uv": f'echo "{FETCHED}"; exit {uv}',
        "python": f'case "$*" in *--quiet*uv) exit 0;; esac; echo pip; exit {pip}',
    }
    (directory / ".venv" / "bin").mkdir(parents=True)
    for name, program in programs.items():
        path = directory / ".venv" / "bin" / name
        path.write_text(f'#!/bin/sh\necho "$0 $*" >> asked\n{program}\n', encoding="utf-8")
        path.chmod(0o755)
    return subprocess.run(
        [ROOT / "deploy" / "install.sh", "parquet"], cwd=directory, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("uv", "pip", "printed", "error", "code"),
    [
        (0, 1, "  Downloading pyarrow (52.5MiB)\n", "", 0),
        (1, 0, "  Downloading pyarrow (52.5MiB)\n  uv could not; pip tries ...\n", "", 0),
        (1, 1, "  Downloading pyarrow (52.5MiB)\n  uv could not; pip tries ...\n", "pip\n", 1),
    ],
)
def test_pip_installs_what_uv_cannot_and_its_failure_is_told(
    uv: int, pip: int, printed: str, error: str, code: int, tmp_path: Path
) -> None:
    installed = install(tmp_path, uv, pip)

    assert (installed.stdout, installed.returncode) == (printed, code)
    assert installed.stderr.removeprefix("uv could not; pip tries ...\n") == error
    asked = (tmp_path / "asked").read_text(encoding="utf-8").splitlines()
    assert all("--constraint constraints.txt" in line for line in asked)
    assert len(asked) == 2 + uv
