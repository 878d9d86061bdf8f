"""What the examples run with: this checkout, or a release that is installed elsewhere."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.paths import ROOT


@dataclass(frozen=True)
class Installation:
    """Something that can `import streamer`.

    python     its interpreter
    variables  the environment for it
    """

    python: str
    variables: dict[str, str]

    @property
    def is_release(self) -> bool:
        """Whether it is installed, and not this checkout."""
        return "PYTHONPATH" not in self.variables


def this_checkout() -> Installation:
    return Installation(sys.executable, {**os.environ, "PYTHONPATH": str(ROOT)})


def release(python: str) -> Installation:
    """The release that an interpreter has. Raises AssertionError where it would take this checkout."""
    variables = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    command = [python, "-c", "import streamer, index; print(streamer.__file__, index.__file__)"]
    found = subprocess.run(command, cwd="/", env=variables, capture_output=True, text=True, check=True).stdout.split()
    assert not any(Path(each).is_relative_to(ROOT / package) for each in found for package in ("streamer", "index"))
    return Installation(python, variables)
