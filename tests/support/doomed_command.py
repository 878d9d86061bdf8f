"""The command line in a process that kills itself with SIGKILL at a write to the index, or amid sending once more.

    python -m tests.support.doomed_command MOMENT COMMIT ARGUMENT...

See `command`.
"""

import os
import signal
import sys
from dataclasses import replace
from typing import Any

from index.storage.store import Store
from streamer.cli.main import main
from streamer.transports.kafka import writer
from tests.support.index_process import suicide


def command(moment: str, commit: int, arguments: list[str]) -> None:
    """Run `streamer` with these arguments, in a process that does nothing else.

    moment  `before` or `after` the commit-th commit of the index; or `sending`: all records of the commit-th transaction have
            arrived, and nobody has committed it
    """
    if moment == "sending":
        begin_sending(commit)
    else:
        begin_writing(moment, commit)
    sys.argv[1:] = arguments
    main()


def begin_writing(moment: str, commit: int) -> None:
    opened = Store.__init__
    hooks = suicide(moment, commit)

    def open_doomed(self: Store, *arguments: Any, **options: Any) -> None:
        opened(self, *arguments, **{**options, "hooks": replace(hooks)})

    Store.__init__ = open_doomed  # type: ignore[method-assign]


def begin_sending(commit: int) -> None:
    left = commit

    def within_timeout(*_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        real(*_)

    real: Any = writer.within_timeout
    writer.within_timeout = within_timeout


if __name__ == "__main__":
    command(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
