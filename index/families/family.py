"""A family while rows are decided: what it knows, and what a vote changes."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from index.matching.minhash import pack_bins
from index.matching.template import Bins, Votes, first_vote, with_vote
from index.storage.layout import Family


@dataclass(slots=True)
class OpenFamily:
    """A family that rows may join.

    head      document number of its head; or, where the head is a row that has no number yet, -1 - row
    stored    what the file is to hold of it; None: no unequal page has voted
    template  uint64 [1, words], the template as a signature; None: not known
    changed   whether `stored` differs from the file
    """

    head: int
    stored: Family | None = None
    template: npt.NDArray[np.uint64] | None = None
    changed: bool = False

    def vote(self, page: Bins, head: Bins | None, voters: int, bin_bits: int) -> bool:
        """Count the vote of a page, uint8 [bins]; returns whether the template is known now.

        head    the head's own bins; None where they are gone, so that no vote begins
        voters  votes that settle the template
        """
        if self.stored is None:
            if head is None:
                return False
            begun = first_vote(head)
            self.stored = Family(0, 0, 0, 0, 0, begun.values, begun.leads)
        assert self.stored.leads is not None
        votes = with_vote(Votes(self.stored.voters, self.stored.values, self.stored.leads), page)
        known = votes.voters >= voters
        leads = None if known else votes.leads
        self.update(self.stored._replace(voters=votes.voters, values=votes.values, leads=leads))
        if known:
            self.template = pack_bins(votes.values[None], bin_bits)
        return known

    def update(self, stored: Family) -> None:
        """Replace what is to be stored."""
        self.stored, self.changed = stored, True

    def count(self, *, dropped: int = 0, relatives: int = 0, made_unique: int = 0, own_bins: int = 0) -> None:
        """Add to the counts of a family that has begun; a family that has not counts nothing."""
        if self.stored is not None:
            now = self.stored
            self.update(
                now._replace(
                    dropped=now.dropped + dropped,
                    relatives=now.relatives + relatives,
                    made_unique=now.made_unique + made_unique,
                    own_bins=now.own_bins + own_bins,
                )
            )
