"""A process that the system refuses is told with the limit that a person can raise."""

import errno
import os

import pytest

from streamer.errors import ProcessRefused
from streamer.observe.process_start import naming_limits


@pytest.mark.parametrize(
    ("number", "limit"),
    [(errno.EMFILE, "ulimit -n"), (errno.ENFILE, "fs.file-max"), (errno.EAGAIN, "ulimit -u"), (errno.ENOMEM, "memory")],
)
def test_every_limit_is_named(number: int, limit: str) -> None:
    with pytest.raises(ProcessRefused, match=limit), naming_limits():
        raise OSError(number, os.strerror(number))
