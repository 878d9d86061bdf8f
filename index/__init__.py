"""The near-duplicate index: fingerprints on disk. It knows no text, no Kafka, no wall clock and no metrics library.

    from index import Entries, Index, Parameters

    with Index.open(directory, Parameters(bits=64, distance_max=3), map_bytes_max=2**30) as index:
        decisions = index.admit(entries, ends)

`index.tools` maintains an index, `errors` has its exceptions, and `minhash` and `second_look` are its pure comparisons.
Names load on first use, so `import index` is cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from index import errors
    from index.decide.find import Decided, EntryState
    from index.decide.near import Judged
    from index.entry import (
        EXTENDING,
        NO_DISTANCE,
        NO_NUMBER,
        RATIO_MAX,
        Applied,
        Decisions,
        Entries,
        HostShare,
        Insert,
        Kind,
        Position,
        RecrawlPolicy,
        Source,
        Verdict,
        WatchedHosts,
        given_back_source,
        is_given_back,
        naming_originals,
        plain_source,
        standing_for_themselves,
    )
    from index.index import Index, Match
    from index.kernels.judge import Reason
    from index.matching import minhash, second_look
    from index.matching.frame import FrameRule
    from index.matching.root import RootRule
    from index.session import Guard, Longer, Recrawl, Retention
    from index.storage.bases import BaseName, base_of, stream_above
    from index.storage.data_file import DATA_FILE
    from index.storage.documents import Document
    from index.storage.file.lock_file import Writer, writer_of
    from index.storage.parameters import DISTANCE_MAX, Parameters
    from index.storage.room import Room, nearest_existing, room_of
    from index.stories.listing import Named, Story
    from index.turn import Turn

__all__ = [
    "DATA_FILE",
    "DISTANCE_MAX",
    "EXTENDING",
    "NO_DISTANCE",
    "NO_NUMBER",
    "RATIO_MAX",
    "Applied",
    "BaseName",
    "Decided",
    "Decisions",
    "Document",
    "Entries",
    "EntryState",
    "FrameRule",
    "Guard",
    "HostShare",
    "Index",
    "Insert",
    "Judged",
    "Kind",
    "Longer",
    "Match",
    "Named",
    "Parameters",
    "Position",
    "Reason",
    "Recrawl",
    "RecrawlPolicy",
    "Retention",
    "Room",
    "RootRule",
    "Source",
    "Story",
    "Turn",
    "Verdict",
    "WatchedHosts",
    "Writer",
    "base_of",
    "errors",
    "given_back_source",
    "is_given_back",
    "minhash",
    "naming_originals",
    "nearest_existing",
    "plain_source",
    "room_of",
    "second_look",
    "standing_for_themselves",
    "stream_above",
    "writer_of",
]

_MODULES = {"errors": "index.errors", "minhash": "index.matching.minhash", "second_look": "index.matching.second_look"}
_HOMES = (
    "index.entry",
    "index.storage.bases",
    "index.storage.data_file",
    "index.storage.file.lock_file",
    "index.storage.room",
    "index.matching.frame",
    "index.matching.root",
    "index.storage.parameters",
    "index.storage.documents",
    "index.turn",
    "index.session",
    "index.decide.find",
    "index.stories.listing",
    "index.kernels.judge",
    "index.decide.near",
    "index.index",
)
"""Modules of the other names. A module imports only earlier ones, so a name loads no more than it needs."""


def __getattr__(name: str) -> object:
    if name in _MODULES:
        globals()[name] = import_module(_MODULES[name])
    elif name in __all__:
        home = next(home for home in map(import_module, _HOMES) if hasattr(home, name))
        globals()[name] = getattr(home, name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    loaded: object = globals()[name]
    return loaded


def __dir__() -> list[str]:
    return __all__
