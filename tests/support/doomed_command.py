"""The command line in a process that kills itself with SIGKILL at a write to the index.

    python -m tests.support.doomed_command MOMENT COMMIT ARGUMENT...

MOMENT is `before` or `after` the COMMIT-th commit. The arguments are those of `streamer`.
"""

import sys
from dataclasses import replace
from typing import Any

from index.storage.store import Store
from streamer.cli.main import main
from tests.support.index_process import suicide


def begin(moment: str, commit: int) -> None:
    opened = Store.__init__
    hooks = suicide(moment, commit)

    def open_doomed(self: Store, *arguments: Any, **options: Any) -> None:
        opened(self, *arguments, **{**options, "hooks": replace(hooks)})

    Store.__init__ = open_doomed  # type: ignore[method-assign]


if __name__ == "__main__":
    begin(sys.argv[1], int(sys.argv[2]))
    sys.argv[1:] = sys.argv[3:]
    main()
