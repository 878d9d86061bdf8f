"""Errors that the index raises on purpose."""

from collections.abc import Sequence
from typing import NamedTuple


class NeardupError(Exception):
    """Base of all errors that the program raises on purpose; the message says what to do."""


class NeardupIndexError(NeardupError):
    """Base of index errors."""


class Difference(NamedTuple):
    """A parameter with the value in the index and the one that is asked; None: not set.

    >>> str(Difference("bits", "64", None))
    'bits: stored 64, asked (not set)'
    """

    name: str
    stored: str | None
    asked: str | None

    def __str__(self) -> str:
        stored, asked = ("(not set)" if value is None else value for value in (self.stored, self.asked))
        return f"{self.name}: stored {stored}, asked {asked}"


class ParametersDifferError(NeardupIndexError):
    """The index on disk has other parameters than requested."""

    way_out = (
        "Use the stored settings, rebuild the index with these (streamer index rebuild DIRECTORY), or begin a new one in "
        "another directory (index.directory)."
    )

    def __init__(self, where: str, differences: Sequence[Difference]) -> None:
        """`where` names the index in the message."""
        self.where, self.differences = where, differences
        thresholds = any(each.name.endswith(("distance_max", "similarity_min", "cosine_min")) for each in differences)
        lines = [
            f"The index in {where} was built with other settings:",
            *(f"  {each}" for each in differences),
            *(["Thresholds may be stricter than the stored ones, not looser."] if thresholds else []),
            self.way_out,
        ]
        super().__init__("\n".join(lines))


class BaseDiffersError(ParametersDifferError):
    """A base set has other parameters than the index above it."""

    way_out = (
        "A base set must have the settings, and the fingerprint key, of the index that looks into it: use those of the set for "
        "a new index in another directory, which takes its key over, or leave the set out."
    )


class StateDiffersError(NeardupIndexError):
    """A flow's state was made with other parameters than requested."""


class FormatUnknownError(NeardupIndexError):
    """This program does not know the format on disk."""


class IndexFullError(NeardupIndexError):
    """The index cannot grow: map limit or full disk. The batch left no trace."""


class IndexMissingError(NeardupIndexError):
    """The directory has no index, or the opened index is gone. A read-only opening creates none."""


class IndexClosedError(NeardupIndexError):
    """The opened index was closed, or the parent of this process opened it: open it again here."""


class AlreadyOpenError(NeardupIndexError):
    """This process already has the directory open."""


class IndexDamagedError(NeardupIndexError):
    """The file's structure is broken, or a write failed halfway and only a fresh opening can judge the file."""


class IndexExistsError(NeardupIndexError):
    """The place of a new index already has one."""


class IndexInUseError(NeardupIndexError):
    """Another process has the index open, has just replaced its file, or has stopped and blocks all writers."""


class GivingBackError(NeardupIndexError):
    """Another command gives documents back, or the last one broke off: run it again."""
