"""A family while rows are decided: what it knows, and what a vote changes."""

from dataclasses import dataclass

from index.matching.template import Bins, Votes, first_vote, with_vote
from index.storage.layout import Family


@dataclass(slots=True)
class OpenFamily:
    """A family that rows may join.

    head     document number of its head; or, where the head is a row that has no number yet, -1 - row
    stored   what the file holds of it, and the votes since; None: no unequal page has voted
    changed  whether the file does not hold all of it

    What rows have added to the counts of `Family`, since it was read: dropped, relatives, made_unique, own_bins
    """

    head: int
    stored: Family | None = None
    changed: bool = False
    dropped: int = 0
    relatives: int = 0
    made_unique: int = 0
    own_bins: int = 0

    @property
    def values(self) -> Bins:
        """The values that lead, or the template, of a family that has begun."""
        assert self.stored is not None
        return self.stored.values

    def vote(self, page: Bins, head: Bins | None, voters: int) -> bool:
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
        self.stored, self.changed = self.stored._replace(voters=votes.voters, values=votes.values, leads=leads), True
        return known

    def count(self, *, dropped: int = 0, relatives: int = 0, made_unique: int = 0, own_bins: int = 0) -> None:
        """Add to the counts of a family that has begun; a family that has not counts nothing."""
        if self.stored is not None:
            self.changed = True
            self.dropped += dropped
            self.relatives += relatives
            self.made_unique += made_unique
            self.own_bins += own_bins

    def to_store(self) -> Family | None:
        """What the file is to hold of it; None: what it holds."""
        if not self.changed or self.stored is None:
            return None
        now = self.stored
        return now._replace(
            dropped=now.dropped + self.dropped,
            relatives=now.relatives + self.relatives,
            made_unique=now.made_unique + self.made_unique,
            own_bins=now.own_bins + self.own_bins,
        )
