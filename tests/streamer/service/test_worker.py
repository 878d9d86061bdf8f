"""A worker's end with its supervisor, even while a parser holds the interpreter's lock."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PARENT = """
import multiprocessing, time
from tests.support.stuck_worker import search_for_ever
if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=search_for_ever, args=({bound},))
    child.start()
    print(child.pid, flush=True)
    time.sleep(600)
"""


def is_running(process: int) -> bool:
    status = Path(f"/proc/{process}/stat")
    return status.exists() and status.read_text().rsplit(")", 1)[1].split()[0] != "Z"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with the thread that started it")
@pytest.mark.parametrize("bound", [True, False])
def test_a_worker_inside_a_search_without_end_dies_with_its_supervisor(bound: bool, tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT.format(bound=bound))
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        searching = Path(f"/proc/{child}/comm")
        deadline = time.monotonic() + 60
        while searching.read_text().strip() != "searching":
            assert time.monotonic() < deadline, "the child never began"
            time.sleep(0.05)
        # The search holds the lock from its first step.
        time.sleep(1)
        parent.kill()
    deadline = time.monotonic() + (30 if bound else 2)
    while is_running(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = is_running(child)
    if left:
        os.kill(child, signal.SIGKILL)
    assert left is not bound, "without the kernel's help the child lives on"
