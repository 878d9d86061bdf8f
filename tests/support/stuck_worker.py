"""A process that searches for ever and holds the interpreter's lock meanwhile."""

import re
from pathlib import Path

from streamer.observe.process_start import die_with_starter, end_with_parent


def search_for_ever(bound: bool) -> None:
    """Search without end; `bound`: the kernel ends this process with its starter."""
    if bound:
        die_with_starter()
    end_with_parent()
    Path("/proc/self/comm").write_text("searching")
    re.match("(a+)+$", "a" * 60 + "b")
