"""Templates: what the pages of one site have in common, learnt from their signatures, and what a page has of its own. Pure.

A root that has taken many unequal members stands for a template. Its family votes: per bin the value that most of them have
(one pass: Boyer, Moore, "MJRTY - A Fast Majority Vote Algorithm", 1991) becomes the template's. A value that more than half of
the voters have is found for certain; where none has, any value may stand there, and no page has it more than others.

What a page has of its own are the bins whose value is not the template's. From then on two pages of the family are one and the
same only where, of the bins that either of them has of its own, enough are equal, or where there are too few to tell. Versions of
a page pass this: their edits pile up, so they share most of what sets them apart from the rest. Pages of a template share none.

All columns of bins are uint8, 0 where a bin is empty; see `minhash`.
"""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.matching.minhash import mixed

Bins = npt.NDArray[np.uint8]

OWN_SHARE_MIN = 0.25
"""Least share of equal bins, among those that either of two pages has of its own, at which the two are duplicates."""

OWN_BINS_MIN = 4
"""Fewer own bins than that tell nothing: chance alone changes so many."""

OWN_SHINGLES_MIN = 32
"""A page with fewer shingles of its own has no text of its own to speak of: a name that changes throughout a short page."""

OWN_KEYS = 8
"""Own bins by which a page is filed; a copy of the page finds it by any of them that it has kept."""

NO_BIN = 255
"""Stands for the bin of the key of pages that have hardly anything of their own."""

_FULL_SHINGLES_A_BIN = 6.25
"""Shingles of a page for each bin where none is empty: at least some five; more make no difference."""


@dataclass(frozen=True, slots=True)
class TemplateRule:
    """Limits of families, in the unit of the index's `distance_max`.

    voters          unequal pages of a family after which its template is settled, once and for all: at most 254
    relatives_apart  a page without a match that is at most so far from a family's template (from its head, as long as there is
                    none) is a relative: it stands for itself, votes, and is judged as the family's pages are
    filed_apart     pages at most so far from the template are filed by what they have of their own, others by their bands
    """

    voters: int = 16
    relatives_apart: int = 5_000
    filed_apart: int = 3_500

    def __post_init__(self) -> None:
        if not 1 <= self.voters <= 254 or not 0 <= self.filed_apart <= self.relatives_apart:
            raise ValueError(
                "a template needs 1 to 254 voters, and its relatives are at least as far as what is filed by it"
            )


class Votes(NamedTuple):
    """A vote under way.

    voters  number of voters so far, without the head
    values  uint8 [bins], the value that leads in each bin
    leads   uint8 [bins], by how much it leads
    """

    voters: int
    values: Bins
    leads: npt.NDArray[np.uint8]


def first_vote(head: Bins) -> Votes:
    """The vote of a family's head, uint8 [bins]."""
    return Votes(0, head.copy(), np.ones(len(head), np.uint8))


def with_vote(votes: Votes, voter: Bins) -> Votes:
    """The votes after one more voter, uint8 [bins]: an equal value leads by one more, another takes over a lead of none."""
    agree, open_ = votes.values == voter, votes.leads == 0
    values = np.where(open_, voter, votes.values)
    leads = np.where(agree | open_, votes.leads + 1, votes.leads - 1).astype(np.uint8)
    return Votes(votes.voters + 1, values, leads)


def own_bins(pages: Bins, templates: Bins) -> npt.NDArray[np.bool_]:
    """Bins that pages have of their own beside their templates: uint8 [n, bins] twice -> bool [n, bins]."""
    own: npt.NDArray[np.bool_] = (pages != 0) & (pages != templates)
    return own


def own_keys(page: Bins, template: Bins) -> npt.NDArray[np.uint16]:
    """Keys of what a page has of its own, each bin * 256 + value: uint8 [bins] twice -> uint16 [own bins].

    In the order of a hash (SplitMix64), which is the same for all pages: what two pages share comes first in both, or in neither.
    """
    own = np.flatnonzero(own_bins(page, template))
    keys = (own.astype(np.uint64) << np.uint64(8)) | page[own]
    ordered: npt.NDArray[np.uint16] = keys[np.argsort(mixed(keys), kind="stable")].astype(np.uint16)
    return ordered


@cache
def key_order() -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint16]]:
    """The order of `own_keys`: the place of every key in it, and the key at every place, uint16 [65536] twice."""
    by_place = np.argsort(mixed(np.arange(2**16, dtype=np.uint64)), kind="stable")
    places = np.empty(2**16, np.uint16)
    places[by_place] = np.arange(2**16)
    return places, by_place.astype(np.uint16)


def own_bins_needed(pages: Bins) -> npt.NDArray[np.int64]:
    """Own bins from which on a page has text of its own to speak of: uint8 [n, bins] -> int64 [n].

    OWN_SHINGLES_MIN shingles fill OWN_SHINGLES_MIN * filled / shingles bins; of s shingles bins * (1 - exp(-s / bins)) are filled
    (Flajolet, Martin 1985), which estimates s. At least OWN_BINS_MIN.
    """
    bins = pages.shape[1]
    filled = np.count_nonzero(pages, axis=1)
    empty_share = np.maximum(1.0 - filled / bins, np.exp(-_FULL_SHINGLES_A_BIN))
    shingles = -bins * np.log(empty_share)
    needed = np.rint(OWN_SHINGLES_MIN * filled / np.maximum(shingles, 1.0)).astype(np.int64)
    enough: npt.NDArray[np.int64] = np.maximum(needed, OWN_BINS_MIN)
    return enough


def are_one_page(pages: Bins, others: Bins, templates: Bins) -> npt.NDArray[np.bool_]:
    """Whether a page and another of its family are duplicates in spite of their template: uint8 [n, bins] thrice -> bool [n].

    Not symmetric: how many bins are needed is a matter of the first page.
    """
    apart = ((pages != templates) | (others != templates)) & ((pages != 0) | (others != 0))
    differing = np.count_nonzero(apart, axis=1)
    equal = np.count_nonzero(apart & (pages == others), axis=1)
    one: npt.NDArray[np.bool_] = (differing < own_bins_needed(pages)) | (equal >= OWN_SHARE_MIN * differing)
    return one
