"""Build the release, install it in a clean environment, and run the demo and every example there.

    python -m deploy.clean_run

1. Build source distribution and wheel from git's files, as a release does.
2. Install the wheel in a new environment, with the tested version of every dependency.
3. Run `streamer demo` and the tests of examples/ there, without any module from this checkout.

The environment is temporary.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = "service,parquet"
FOR_EXAMPLES = ("scrapy", "pandas")
FOREIGN = ("STREAMER_", "PYTHON", "VIRTUAL_ENV", "NUMBA_")


class StepFailed(Exception):
    """A step failed; the message has its output."""


def step(what: str, command: Sequence[object], where: Path, *, shown: bool = False) -> None:
    """Run a command in a clean environment, and print its duration. Raises StepFailed."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(FOREIGN)}
    begun = time.monotonic()
    done = subprocess.run(
        list(map(str, command)), cwd=where, env=clean, capture_output=not shown, text=True, check=False
    )
    if done.returncode != 0:
        raise StepFailed(f"{what}: exit code {done.returncode}\n{done.stdout or ''}{done.stderr or ''}")
    print(f"{time.monotonic() - begun:6.1f} s  {what}", flush=True)


def checkout(into: Path) -> Path:
    """Copy the files that git tracks or would add, without build and run artefacts."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    for name in names:
        if name and (ROOT / name).is_file():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, into / name)
    return into


def main() -> int:
    """Build the release, install it in a clean environment, and run the demo and every example there."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="clean-run-") as name:
        directory = Path(name)
        python = directory / "environment" / "bin" / "python"
        try:
            sources = checkout(directory / "sources")
            build = (sys.executable, "-m", "build", "--outdir", directory / "dist", sources)
            step("source distribution, and the wheel that is made from it", build, directory)
            (wheel,) = (directory / "dist").glob("*.whl")
            step("a new environment", (sys.executable, "-m", "venv", "--without-pip", python.parents[1]), directory)
            pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python)
            # Most of the dependencies is never imported, and compiling it all would double the time.
            install = (*pip, "install", "--quiet", "--no-compile", "--constraint", ROOT / "constraints.txt")
            step(f"{wheel.name}[{EXTRAS}] in it", (*install, f"{wheel}[{EXTRAS}]", *FOR_EXAMPLES), directory)
            step("streamer version", (python.with_name("streamer"), "version"), directory)
            step("streamer demo", (python.with_name("streamer"), "demo"), directory)
            tests = (sys.executable, "-m", "pytest", "--quiet", "--installed", python, "tests/examples")
            step("every example", tests, ROOT, shown=True)
        except StepFailed as error:
            print(error, file=sys.stderr)
            return 1
    print(f"{time.monotonic() - begun:6.1f} s  in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
