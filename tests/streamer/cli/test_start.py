"""What a command imports before it does anything: help and settings need no compiled code and no clients."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.indexes import opened

HEAVY = ("numba", "numpy", "kafka", "lmdb", "prometheus_client", "jieba")

FOR_WORKERS = ("numba", "kafka", "jieba", "rjieba", "opencc", "selectolax", "trafilatura")


@pytest.mark.parametrize("words", [["--help"], ["filter", "--help"], ["run", "--help"], ["index", "--help"]])
def test_help_imports_no_library_that_only_work_needs(words: list[str]) -> None:
    program = (
        "import sys\nfrom streamer.cli.main import cli\n"
        f"try:\n    cli({words!r})\nexcept SystemExit:\n    print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "Usage:" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("has_index", [False, True])
@pytest.mark.parametrize("asks", ["false", "true"])
def test_a_supervisor_imports_no_library_that_only_its_workers_need(asks: str, has_index: bool, tmp_path: Path) -> None:
    """Every process of a service pays for its own imports: seconds of processor time for those of a worker."""
    if has_index:
        opened(tmp_path / "index-data").close()
    program = (
        "import sys\nfrom streamer.cli.main import cli\nfrom streamer.workers.supervisor import Supervisor\n"
        "def run(supervisor):\n    supervisor._ask_service(None)\n"
        f"    print([name for name in {FOR_WORKERS!r} if name in sys.modules])\n    return 0\n"
        f"Supervisor.run = run\ncli(['run', '--set', 'ask.enabled={asks}'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.splitlines() == ["[]"]
