"""Fingerprints on disk: the near-duplicate index. It knows no text, no Kafka, no wall clock and no metrics library.

    from index import Entries, Index, Parameters

    with Index.open(directory, Parameters(bits=64, distance_max=3), map_bytes_max=2**30) as index:
        decisions = index.admit(entries, ends)

`index.tools` maintains an index; `errors` has its exceptions; `minhash` and `second_look` are the pure comparisons
that producers of fingerprints need too. Names load on first use, so `import index` is cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from index import errors as errors
    from index.decide.find import Decided as Decided
    from index.decide.find import Standing as Standing
    from index.entry import NO_DISTANCE as NO_DISTANCE
    from index.entry import NO_NUMBER as NO_NUMBER
    from index.entry import Applied as Applied
    from index.entry import Decisions as Decisions
    from index.entry import Entries as Entries
    from index.entry import HostShare as HostShare
    from index.entry import Insert as Insert
    from index.entry import Kind as Kind
    from index.entry import Position as Position
    from index.entry import RecrawlPolicy as RecrawlPolicy
    from index.entry import Source as Source
    from index.entry import Verdict as Verdict
    from index.entry import naming_originals as naming_originals
    from index.entry import plain_source as plain_source
    from index.entry import standing_for_themselves as standing_for_themselves
    from index.index import Index as Index
    from index.index import Match as Match
    from index.index import WatchedHosts as WatchedHosts
    from index.matching import minhash as minhash
    from index.matching import second_look as second_look
    from index.matching.frame import FrameRule as FrameRule
    from index.matching.root import RootRule as RootRule
    from index.session import Guard as Guard
    from index.session import Recrawl as Recrawl
    from index.session import Retention as Retention
    from index.storage.documents import Document as Document
    from index.storage.parameters import DISTANCE_MAX as DISTANCE_MAX
    from index.storage.parameters import Parameters as Parameters

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
    "index.decide.find": ("Decided", "Standing"),
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
