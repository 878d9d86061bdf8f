"""What a command imports before it does anything: help and settings need no compiled code and no clients."""

import subprocess
import sys

import pytest

HEAVY = ("numba", "numpy", "kafka", "lmdb", "prometheus_client", "jieba")


@pytest.mark.parametrize("words", [["--help"], ["filter", "--help"], ["run", "--help"], ["index", "--help"]])
def test_help_imports_no_library_that_only_work_needs(words: list[str]) -> None:
    program = (
        "import sys\nfrom streamer.cli.main import cli\n"
        f"try:\n    cli({words!r})\nexcept SystemExit:\n    print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "Usage:" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"
