"""The seam for a handful of records by their positions in the input, to show them to people. It writes nothing."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from index import Position
from streamer.records.record import Record


class Absent(NamedTuple):
    """No record at a position: why not, in words that end a sentence."""

    why: str


Found = Mapping[Position, Record | Absent]

RecordsAt = Callable[[Sequence[Position]], Found]
"""The record at each position, or why there is none. Takes a step for each, so it is for a handful.

It does not promise that the record is the one that stood there before: a file may have been changed.
"""
