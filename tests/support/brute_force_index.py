"""The index by brute force: the same rule as `Index.admit`, written as plainly as it can be. It compares all pairs."""

from dataclasses import dataclass, field
from typing import NamedTuple

from index.entry import Entries, Kind, Position, Source, Verdict


class Known(NamedTuple):
    number: int
    root: int
    kind: Kind
    fingerprint: int
    id: str
    position: Position


class Answer(NamedTuple):
    verdict: Verdict
    reason: int
    distance: int
    original: int | None
    original_id: str | None
    original_position: Position | None


@dataclass
class BruteForceIndex:
    distance_max: int
    insert: str
    known: list[Known] = field(default_factory=list)
    journal: dict[Position, Answer] = field(default_factory=dict)
    applied: dict[Source, int] = field(default_factory=dict)

    def distance(self, known: int, fingerprint: int) -> int:
        return (known ^ fingerprint).bit_count()

    def admit(self, entries: Entries, ends: dict[Source, int]) -> list[Answer]:
        answers = [self._decide(entries, row) for row in range(len(entries))]
        for source, end in ends.items():
            self.applied[source] = max(end, self.applied.get(source, 0))
        return answers

    def _decide(self, entries: Entries, row: int) -> Answer:
        position = Position(entries.sources[int(entries.source_numbers[row])], int(entries.offsets[row]))
        if position not in self.journal:
            self.journal[position] = self._new(entries, row, position)
        return self.journal[position]

    def _new(self, entries: Entries, row: int, position: Position) -> Answer:
        kind, reason = Kind(int(entries.kinds[row])), int(entries.reasons[row])
        if kind is Kind.UNDECIDABLE:
            return Answer(Verdict.UNDECIDABLE, reason, -1, None, None, None)
        if kind is Kind.DEAD_LETTER:
            return Answer(Verdict.DEAD_LETTER, reason, -1, None, None, None)
        fingerprint = 0
        for word in entries.fingerprints[row].tolist():
            fingerprint = fingerprint << 64 | word
        radius = 0 if kind is Kind.EXACT else self.distance_max
        of_kind = [known for known in self.known if known.kind is kind]
        apart = [(self.distance(known.fingerprint, fingerprint), known.number) for known in of_kind]
        matches = [(distance, number) for distance, number in apart if distance <= radius]
        number = len(self.known)
        if not matches:
            self.known.append(Known(number, number, kind, fingerprint, entries.ids[row], position))
            return Answer(Verdict.UNIQUE, reason, -1, number, None, None)
        distance, match = min(matches)
        original = self.known[self.known[match].root]
        if self.insert == "all":
            self.known.append(Known(number, original.number, kind, fingerprint, entries.ids[row], position))
        return Answer(Verdict.DUPLICATE, reason, distance, original.number, original.id, original.position)
