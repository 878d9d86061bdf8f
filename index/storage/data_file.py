"""LMDB's data file: created whole, checked before LMDB reads it, and opened once per process.

LMDB trusts what it reads. A missing page kills the process (SIGBUS), and so may a page that LMDB did not write
(SIGSEGV). So this module checks the meta pages before mapping the file, and all tree pages before LMDB walks a tree.

Layout of LMDB's two meta pages, format 1, 64 bits, little-endian (mdb.c, `MDB_page` and `MDB_meta`):

    page header  number u64, padding u16, flags u16, two bounds u16 each
    meta         magic u32, version u32, address u64, map size u64,
                 free tree and main tree, 48 bytes each: page size or padding u32, flags u16, depth u16, branch pages,
                 leaf pages, overflow pages, entries, root u64 each; then last page u64, transaction u64

A process reads the meta page with the newer transaction, and overwrites the older one.
"""

import errno
import os
import re
import struct
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import lmdb
import numpy as np
from lmdb import verify

from index.errors import AlreadyOpenError, FormatUnknownError, IndexDamagedError, IndexFullError

DATA_FILE = "data.mdb"

DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""Full-disk errors. A disk that fills up stops a write half-way, which LMDB reports as EIO."""

WAY_OUT = (
    "Rebuild it from the output topics (streamer index rebuild DIRECTORY --topics --switch). Or move the file away, and "
    "restore a backup (streamer index restore), or start the service or the filter, which restores it from what was delivered."
)

_META = struct.Struct("<QHHHH II QQ IHHQQQQQ IHHQQQQQ QQ")
_HEADER = struct.Struct("<QHHHH")
MAGIC, _VERSION = 0xBEEFC0DE, 1
_BRANCH, _LEAF, _META_PAGE, _FIXED = 0x01, 0x02, 0x08, 0x20
_IN_OVERFLOW, _OWN_TREE, _MANY_VALUES = 0x01, 0x02, 0x04
_TABLE_FLAGS = {0, 0x14}
TREE = struct.Struct("<IHHQQQQQ")
_INTEGER_KEYS, _NO_SUBFOLDER = 0x08, 0x4000
NO_ROOT = 2**64 - 1
_DEPTH_MAX = 32
_MAP_BYTES_LIMIT = 2**46
_PAGE_BYTES = {2**power for power in range(8, 17)}

_SPARE = re.compile(
    r"^(?P<table>.+) DB: overflow page \d+ header mp_pages (?P<pages>\d+) != OVPAGES\(\d+\)=(?P<needed>\d+)$"
)
_COUNTED = re.compile(r"^(?P<table>.+) DB: walked (?P<walked>\d+) overflow pages, record says (?P<recorded>\d+)$")
_UNREACHED = re.compile(r"^(?P<pages>\d+) page\(s\) are neither reachable nor in the freeDB ")

_TRIES, _PAUSE_SECONDS = 5, 0.02
"""A writer may replace both pages during a read."""

_open_directories: dict[tuple[int, int], object] = {}
"""Directories open in this process: LMDB's locks belong to the process, and a second opening would break them."""


@dataclass(frozen=True, slots=True)
class _Tree:
    flags: int
    depth: int
    root: int


@dataclass(frozen=True, slots=True)
class _Meta:
    page_bytes: int
    trees: tuple[_Tree, _Tree]
    last_page: int
    transaction: int


def create(directory: Path) -> None:
    """Create a missing data file, whole or not at all: an empty file is always damage. Raises IndexFullError, OSError."""
    if os.path.lexists(directory / DATA_FILE):
        return
    with (
        room_in(directory),
        suppress(FileExistsError),
        tempfile.TemporaryDirectory(prefix=DATA_FILE + ".", dir=directory) as apart,
    ):
        # No other process knows this folder, so no lock is needed.
        # The file holds the secret key.
        lmdb.open(apart, map_size=2**20, lock=False, mode=0o600).close()
        (directory / DATA_FILE).hardlink_to(Path(apart) / DATA_FILE)


@contextmanager
def room_in(directory: Path) -> Iterator[None]:
    """Turn full-disk errors into IndexFullError."""
    try:
        yield
    except (lmdb.DiskError, OSError) as problem:
        if isinstance(problem, OSError) and problem.errno not in DISK_FULL:
            raise
        raise IndexFullError(
            f"The disk that holds the index in {directory} is full or failing: {problem}. Make room; nothing was kept."
        ) from problem


def require_whole(file: Path) -> int:
    """Return the file's size; raises IndexDamagedError if used pages are missing or the meta pages are unsound. Reads no map.

    Raises FormatUnknownError if the file is not LMDB's, or has another version. Other pages are not checked.
    """
    for left in reversed(range(_TRIES)):
        size = file.stat().st_size
        problem = _problem(file)
        if not problem:
            return size
        if left:
            time.sleep(_PAUSE_SECONDS)
    raise IndexDamagedError(f"{file} is damaged: {problem}. {WAY_OUT}")


def require_uncut(file: Path, identity: tuple[int, int] | None, size: int) -> int:
    """Return the file's size; raises IndexDamagedError if a file with this identity is shorter than before. LMDB never cuts one.

    A missing or replaced file keeps its old size: a process that has it open may continue reading.
    """
    try:
        status = file.stat()
    except OSError:
        return size
    if _identity(status) != identity:
        return size
    if status.st_size < size:
        raise IndexDamagedError(
            f"{file} is damaged: it was cut from {size} bytes to {status.st_size} while it was open. {WAY_OUT}"
        )
    return status.st_size


def require_sound(file: Path, last_transaction: Callable[[], int]) -> None:
    """Raise IndexDamagedError if LMDB must not read all pages (see `structure_problems`). Call this inside a transaction.

    last_transaction  number of any process's last transaction
    """
    while True:
        before = last_transaction()
        # Unused pages do no harm.
        problems = [problem for problem in structure_problems(file) if not _UNREACHED.match(problem)]
        if not problems:
            return
        if last_transaction() == before:
            raise IndexDamagedError(f"{file} is damaged: {problems[0]}. {WAY_OUT}")
        # The file grew during the read, or a writer replaced a meta page.


def _problem(file: Path) -> str:
    with file.open("rb") as opened:
        # Most pages have 4 KiB. The first page says where the second begins.
        descriptor = opened.fileno()
        begin = os.pread(descriptor, 2 * max(_PAGE_BYTES), 0)
        if not begin:
            return "it is empty"
        if len(begin) < _META.size:
            return f"it has {len(begin)} bytes, which is less than a page"
        first = _META.unpack_from(begin)
        page_bytes = first[9]
        at = page_bytes if page_bytes in _PAGE_BYTES else os.sysconf("SC_PAGESIZE")
        if len(begin) < at + _META.size:
            return f"it has {len(begin)} bytes, and its first two pages take {2 * at}"
        fields = (first, _META.unpack_from(begin, at))
        if all(page[5:7] != (MAGIC, _VERSION) for page in fields):
            raise FormatUnknownError(
                f"{file} is not a file this program can read: its first pages are not of LMDB's format 1."
            )
        if not all(_is_sound(page, number, at) for number, page in enumerate(fields)):
            return "its first two pages hold what LMDB never writes"
        one, other = (_meta_of(page) for page in fields)
        if min(one.transaction, other.transaction) and abs(one.transaction - other.transaction) != 1:
            return "its first two pages are not of two transactions in a row"
        newer = max(one, other, key=lambda meta: meta.transaction)
        # Size after pages: other processes only let the file grow.
        size, wanted = os.fstat(descriptor).st_size, (newer.last_page + 1) * at
        if size < wanted and _lacks_used_pages(file):
            return f"it has {size} bytes, and its last page ends at {wanted}"
        if not all(_has_root(descriptor, tree, at) for tree in newer.trees):
            return "the root of a tree is not where its first two pages say"
    return ""


def _is_sound(fields: tuple[int, ...], number: int, page_bytes: int) -> bool:
    """Whether LMDB could have written a meta page's fields."""
    page, _, flags, _, _, magic, version, address, map_bytes = fields[:9]
    meta = _meta_of(fields)
    free, main = meta.trees
    return (
        (page, flags, magic, version, address) == (number, _META_PAGE, MAGIC, _VERSION, 0)
        and meta.page_bytes == page_bytes
        and free.flags & ~_NO_SUBFOLDER == _INTEGER_KEYS
        and main.flags == 0
        and meta.last_page < 2**48
        and map_bytes % page_bytes == 0
        and map_bytes < _MAP_BYTES_LIMIT
        and (meta.transaction == 0 or meta.transaction % 2 == number)
        and all(
            (tree.root == NO_ROOT and tree.depth == 0)
            or (2 <= tree.root <= meta.last_page and 0 < tree.depth <= _DEPTH_MAX)
            for tree in meta.trees
        )
    )


def _meta_of(fields: tuple[int, ...]) -> _Meta:
    free, main = (_Tree(fields[at + 1], fields[at + 2], fields[at + 7]) for at in (9, 17))
    return _Meta(fields[9], (free, main), fields[25], fields[26])


def _has_root(descriptor: int, tree: _Tree, page_bytes: int) -> bool:
    if tree.root == NO_ROOT:
        return True
    header = os.pread(descriptor, _HEADER.size, tree.root * page_bytes)
    if len(header) < _HEADER.size:
        return False
    page, _, flags, lower, upper = _HEADER.unpack(header)
    kind = _LEAF if tree.depth == 1 else _BRANCH
    return bool(page == tree.root and flags & (_LEAF | _BRANCH) == kind and lower <= upper <= page_bytes)


def _lacks_used_pages(file: Path) -> bool:
    """Whether a used page is missing at the end: LMDB need not write a page that was freed before its commit."""
    try:
        problems = verify.verify(os.fspath(file), subdir=False)  # type: ignore[no-untyped-call]
    except verify.VerifyError:
        return True
    return any("beyond EOF" in str(problem) for problem in problems)


def structure_problems(file: Path) -> list[str]:
    """Problems in the file's pages, in words; empty if LMDB may read all. Reads every page in every tree.

    While other processes write, call this inside a transaction, which pins its snapshot's pages and later ones.
    """
    try:
        problems = _without_spare_pages([str(problem) for problem in verify.verify(os.fspath(file), subdir=False)])  # type: ignore[no-untyped-call]
    except (verify.VerifyError, struct.error, IndexError, ValueError, OverflowError) as problem:
        return [str(problem) or repr(problem)]
    if any(not _UNREACHED.match(problem) for problem in problems):
        return problems
    return [*problems, *_tree_problems(file)]


def _tree_problems(file: Path) -> Iterator[str]:
    """Problems that LMDB's own check misses."""
    with file.open("rb") as opened:
        descriptor = opened.fileno()
        begin = os.pread(descriptor, 2 * max(_PAGE_BYTES), 0)
        first = _META.unpack_from(begin)
        metas = (_meta_of(page) for page in (first, _META.unpack_from(begin, first[9])))
        newer = max(metas, key=lambda meta: meta.transaction)
        for tree, name in zip(newer.trees, ("the free pages", "the tables"), strict=True):
            yield from _TreeWalk(descriptor, newer.page_bytes, name, by_number=tree is newer.trees[0]).problems(
                tree.root
            )


class _TreeWalk:
    """Walks a tree in key order.

    Every key must lie between its separators, or LMDB cannot look it up. Nodes must fill a page's end without gaps:
    LMDB relies on that to add one. Flags must occur in this program's tables.
    """

    def __init__(self, descriptor: int, page_bytes: int, name: str, *, by_number: bool = False) -> None:
        self._descriptor, self._page_bytes = descriptor, page_bytes
        self._name, self._by_number = name, by_number
        self._last: bytes | int | None = None
        self._separator: bytes | int | None = None

    def problems(self, number: int) -> Iterator[str]:
        if number == NO_ROOT:
            return
        page = os.pread(self._descriptor, self._page_bytes, number * self._page_bytes)
        _, fixed_bytes, flags, lower, upper = _HEADER.unpack_from(page)
        where, count = f"page {number} of {self._name}", (lower - _HEADER.size) // 2
        if flags & _FIXED:
            if upper != self._page_bytes - count * (fixed_bytes - 2):
                yield f"{where} is not as full as it says"
            ends = (_HEADER.size + place * fixed_bytes for place in (1, count))
            yield from self._keys(where, *(page[end - fixed_bytes : end] for end in ends))
            return
        is_branch = bool(flags & _BRANCH)
        halves = np.frombuffer(page, "<u2").astype(np.int64)
        places = halves[_HEADER.size // 2 : lower // 2]
        low, high, node_flags, key_bytes = (halves[places // 2 + field] for field in range(4))
        value_bytes = np.where(node_flags & _IN_OVERFLOW, 8, high << 16 | low) * (not is_branch)
        sizes = 8 + key_bytes + value_bytes
        order = np.argsort(places)
        edges = np.append(places[order], self._page_bytes)
        if (
            not count
            or (places % 2).any()
            or edges[0] != upper
            or ((edges[:-1] + sizes[order] + 1) // 2 * 2 != edges[1:]).any()
        ):
            yield f"the nodes of {where} do not fill it"
            return

        def key(node: int) -> bytes:
            return page[places[node] + 8 : places[node] + 8 + key_bytes[node]]

        if is_branch:
            for node in range(count):
                if node:
                    yield from self._separate(where, key(node))
                yield from self.problems(int(low[node] | high[node] << 16 | node_flags[node] << 32))
            return
        if (node_flags & ~(_IN_OVERFLOW | _OWN_TREE | _MANY_VALUES)).any():
            yield f"a node of {where} has a flag that is none"
        yield from self._keys(where, key(0), key(count - 1))
        for node in np.flatnonzero(node_flags & (_OWN_TREE | _MANY_VALUES)).tolist():
            begin = int(places[node] + 8 + key_bytes[node])
            value = page[begin : begin + int(value_bytes[node])]
            yield from self._inside(where, key(node), value, int(node_flags[node]))

    def _inside(self, where: str, key: bytes, value: bytes, flags: int) -> Iterator[str]:
        if flags & _OWN_TREE:
            tree_header = TREE.unpack(value)
            name = f"`{key.decode(errors='replace')}`"
            if flags & _MANY_VALUES:
                name = f"the values of {key.hex()} in {self._name}"
            elif tree_header[1] not in _TABLE_FLAGS:
                yield f"{name} has flags that no table has"
            yield from _TreeWalk(self._descriptor, self._page_bytes, name).problems(tree_header[-1])
            return
        _, fixed_bytes, page_flags, lower, upper = _HEADER.unpack_from(value)
        count = (lower - _HEADER.size) // 2
        if not page_flags & _FIXED or not count or upper != len(value) - count * (fixed_bytes - 2):
            yield f"the values of {key.hex()} on {where} are not as many as they say"

    def _separate(self, where: str, key: bytes) -> Iterator[str]:
        self._separator = self._ordered(key)
        if self._last is not None and self._separator <= self._last:  # type: ignore[operator]
            yield f"a separator of {where} is not above the keys before it"

    def _keys(self, where: str, first: bytes, last: bytes) -> Iterator[str]:
        if self._separator is not None and self._ordered(first) < self._separator:  # type: ignore[operator]
            yield f"the first key of {where} is below its separator"
        self._last = self._ordered(last)

    def _ordered(self, key: bytes) -> bytes | int:
        return int.from_bytes(key, "little") if self._by_number else key


def _without_spare_pages(problems: Sequence[str]) -> list[str]:
    """Problems without those that spare pages explain, to the page; all problems if spare pages do not explain the counts.

    LMDB writes a shorter value into the pages of a longer one from the same transaction (`mdb_cursor_put`), which is
    sound. Its check reports such a value, and counts the spare pages as missing.
    """
    spare: Counter[str] = Counter()
    counted: Counter[str] = Counter()
    unreached, left = 0, []
    for problem in problems:
        if (found := _SPARE.match(problem)) and int(found["pages"]) > int(found["needed"]):
            spare[found["table"]] += int(found["pages"]) - int(found["needed"])
        elif found := _COUNTED.match(problem):
            counted[found["table"]] += int(found["recorded"]) - int(found["walked"])
        elif found := _UNREACHED.match(problem):
            unreached += int(found["pages"])
        else:
            left.append(problem)
    return left if spare == counted and unreached == spare.total() else list(problems)


def claim(directory: Path) -> tuple[int, int]:
    """Register a directory as open; returns its identity for `release`. Raises AlreadyOpenError."""
    identity, mine = _identity(directory.stat()), object()
    # One step, without a lock that another thread could hold while this process forks.
    if _open_directories.setdefault(identity, mine) is not mine:
        raise AlreadyOpenError(f"The index in {directory} is already open in this process; share that one.")
    return identity


def identity_of(file: Path) -> tuple[int, int] | None:
    """Device and inode, unique while the file exists; None if it is missing or unreadable."""
    try:
        return _identity(file.stat())
    except OSError:
        return None


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def release(identity: tuple[int, int]) -> None:
    """Undo `claim`."""
    _open_directories.pop(identity, None)
