"""Pages of sites, as signatures that are drawn, and an index that decides on them."""

from collections.abc import Iterator

import numpy as np

from index.entry import Entries, Kind, Verdict
from index.index import Index
from index.matching.frame import FrameRule
from index.matching.minhash import Banding
from index.matching.root import RootRule
from index.storage.parameters import Parameters
from tests.support.entries import ONE

BINS = 64
PARAMETERS = Parameters(
    BINS * 8, 3_000, "root", {}, Banding(BINS, 8, 16, 4), root=RootRule(5_000, 500), frames=FrameRule(3, 8, 2)
)
WORDS = {
    Verdict.UNIQUE: "unique",
    Verdict.DUPLICATE: "duplicate",
    Verdict.TEMPLATE: "template",
    Verdict.EXTENDS: "extends",
    Verdict.ADDS: "adds",
}


def site(generator: np.random.Generator, count: int, sites: int, filled: float) -> np.ndarray:
    """Signatures of pages of some templates, each with a share of its own, and copies of earlier ones: uint8 [count, BINS]."""
    templates = generator.integers(1, 256, (sites, BINS)).astype(np.uint8)
    templates[generator.random((sites, BINS)) > filled] = 0
    pages: list[np.ndarray] = []
    for _ in range(count):
        if pages and generator.random() < 0.3:
            page, changed = pages[int(generator.integers(len(pages)))].copy(), int(generator.integers(0, 5))
        else:
            page, changed = templates[int(generator.integers(sites))].copy(), int(generator.integers(1, 22))
        at = generator.choice(np.flatnonzero(page) if page.any() else BINS, changed)
        # Few values, so that pages share some of their own text, too.
        page[at] = generator.integers(1, 6, changed)
        pages.append(page)
    return np.array(pages)


def hosts_of(generator: np.random.Generator, count: int, sites: int) -> list[str | None]:
    """A host for each page: one of as many as there are sites, and sometimes none."""
    return [
        None if number == sites else f"host-{number}" for number in generator.integers(0, sites + 1, count).tolist()
    ]


def batch_of(
    signatures: np.ndarray,
    begin: int,
    end: int,
    hosts: list[str | None] | None = None,
    ids: list[str] | None = None,
    lengths: np.ndarray | None = None,
) -> Entries:
    """Rows of one source; an id is the row's number unless `ids` says another."""
    count = end - begin
    return Entries(
        (ONE,),
        np.zeros(count, np.uint32),
        np.arange(begin, end, dtype=np.uint64),
        np.full(count, Kind.NEAR, np.uint8),
        np.zeros(count, np.uint8),
        signatures[begin:end],
        np.zeros(count, np.int64),
        [str(row) for row in range(begin, end)] if ids is None else ids[begin:end],
        hosts=None if hosts is None else hosts[begin:end],
        lengths=None if lengths is None else lengths[begin:end],
    )


def told(
    index: Index,
    signatures: np.ndarray,
    hosts: list[str | None],
    cuts: list[int],
    first: int = 0,
    lengths: np.ndarray | None = None,
) -> Iterator[tuple[str, str | None, int]]:
    """Verdict, id of the document named, and distance to it, from row `first` on; batches end at these rows."""
    for begin, end in zip([first, *cuts], [*cuts, len(signatures)], strict=True):
        decisions = index.admit(batch_of(signatures, begin, end, hosts, lengths=lengths), {ONE: end})
        columns = (decisions.verdicts.tolist(), decisions.original_ids, decisions.distances.tolist())
        for verdict, original, distance in zip(*columns, strict=True):
            yield WORDS[Verdict(verdict)], original, distance
