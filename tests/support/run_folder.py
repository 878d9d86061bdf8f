"""Where the processes of a run meet: one folder, made and removed by the process that starts the others."""

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from xdist.scheduler import LoadScopeScheduling

GROUPS = "groups.json"


def write_groups(folder: Path, process: str, groups: Mapping[str, str]) -> None:
    """Leave word of tests that run in one process with those of other files: their group by their id."""
    (folder / f"{process}.json").write_text(json.dumps(groups))
    (folder / f"{process}.json").rename(folder / GROUPS)


class Grouping(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out tests file by file, and those of a group together.

    What xdist brings for groups (3.8.0) writes them into a field of an item that pytest (9.2) has no more: every test came
    by itself, and fixtures of a module were made in each process.
    """

    def __init__(self, config: Any, log: Any, folder: Path) -> None:
        super().__init__(config, log)
        self._folder = folder

    @cached_property
    def _groups(self) -> dict[str, str]:
        # All processes have collected, and each has written the same, before the first test is handed out.
        return dict(json.loads((self._folder / GROUPS).read_text()))

    def _split_scope(self, nodeid: str) -> str:
        return self._groups.get(nodeid, nodeid.partition("::")[0])
