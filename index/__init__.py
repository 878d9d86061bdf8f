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
    from index.entry import (
        NO_DISTANCE,
        NO_NUMBER,
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
        naming_originals,
        plain_source,
        standing_for_themselves,
    )
    from index.index import Index, Match, WatchedHosts
    from index.matching import minhash, second_look
    from index.matching.frame import FrameRule
    from index.matching.root import RootRule
    from index.session import Guard, Recrawl, Retention
    from index.storage.documents import Document
    from index.storage.parameters import DISTANCE_MAX, Parameters

__all__ = [
    "DISTANCE_MAX",
    "NO_DISTANCE",
    "NO_NUMBER",
    "Applied",
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
    "Kind",
    "Match",
    "Parameters",
    "Position",
    "Recrawl",
    "RecrawlPolicy",
    "Retention",
    "RootRule",
    "Source",
    "Verdict",
    "WatchedHosts",
    "errors",
    "minhash",
    "naming_originals",
    "plain_source",
    "second_look",
    "standing_for_themselves",
]

_NAMES = {
    "index.entry": (
        "NO_DISTANCE",
        "NO_NUMBER",
        "Applied",
        "Decisions",
        "Entries",
        "HostShare",
        "Insert",
        "Kind",
        "Position",
        "RecrawlPolicy",
        "Source",
        "Verdict",
        "naming_originals",
        "plain_source",
        "standing_for_themselves",
    ),
    "index.decide.find": ("Decided", "EntryState"),
    "index.index": ("Index", "Match", "WatchedHosts"),
    "index.matching.frame": ("FrameRule",),
    "index.matching.root": ("RootRule",),
    "index.session": ("Guard", "Recrawl", "Retention"),
    "index.storage.documents": ("Document",),
    "index.storage.parameters": ("DISTANCE_MAX", "Parameters"),
}
_MODULES = {"errors": "index.errors", "minhash": "index.matching.minhash", "second_look": "index.matching.second_look"}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}
__all__ = sorted({*_MODULES, *_HOMES})


def __getattr__(name: str) -> object:
    if name in _MODULES:
        found: object = import_module(_MODULES[name])
    elif name in _HOMES:
        found = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
