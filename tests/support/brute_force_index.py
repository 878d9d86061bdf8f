"""The index by brute force: the same rule as `Index.admit`, written as plainly as it can be. It compares all pairs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from index.entry import Entries, Kind, Position, Source, Verdict
from index.matching.root import RootRule

RECRAWLED = 100
"""Added to the reason of a document that is kept beside its older version."""


class Known(NamedTuple):
    number: int
    root: int
    kind: Kind
    fingerprint: int
    id: str
    position: Position
    time_ms: int = 0
    look: bytes = b""


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
    entries_max: int | None = None
    age_max_ms: int | None = None
    recrawl: str = "duplicate"
    second_look: Callable[[int, bytes, bytes], int | None] | None = None
    """From the distance of two documents and their looks: what the match is told as; None where it does not count."""
    root: RootRule | None = None
    known: list[Known] = field(default_factory=list)
    journal: dict[Position, Answer] = field(default_factory=dict)
    applied: dict[Source, int] = field(default_factory=dict)
    retired: set[int] = field(default_factory=set)
    times: dict[Source, list[int]] = field(default_factory=dict)
    watermarks: dict[Source, int] = field(default_factory=dict)
    numbers_of_ids: dict[str, list[int]] = field(default_factory=dict)
    """By id: the originals of its records, their own where they stand for themselves."""
    decided_at: dict[int, int | None] = field(default_factory=dict)
    """By number: the watermark of its source when it was decided; None as long as there is none."""
    given_back: dict[Position, int] = field(default_factory=dict)
    """Number of the document that was given back at a position."""

    def distance(self, known: int, fingerprint: int) -> int:
        return (known ^ fingerprint).bit_count()

    def distance_to_root(self, root: int, fingerprint: int) -> int:
        return self.distance(root, fingerprint)

    def admit(self, entries: Entries, ends: dict[Source, int]) -> list[Answer]:
        self._retire(entries)
        begin = len(self.known)
        answers = [self._decide(entries, row) for row in range(len(entries))]
        for known in self.known[begin:]:
            self.decided_at[known.number] = self.watermarks.get(known.position.source)
        for source, end in ends.items():
            self.applied[source] = max(end, self.applied.get(source, 0))
        return answers

    def _retire(self, entries: Entries) -> None:
        for row in range(len(entries)):
            source = entries.sources[int(entries.source_numbers[row])]
            new = Position(source, int(entries.offsets[row])) not in self.journal
            if new and entries.times_ms[row] > 0:
                self.times.setdefault(source, []).append(int(entries.times_ms[row]))
        for source, times in self.times.items():
            latest = sorted(times[-63:])
            if len(latest) >= 15:
                self.watermarks[source] = max(self.watermarks.get(source, -1), latest[len(latest) // 2])
        for known in self.known:
            watermark = self.watermarks.get(known.position.source)
            if self.decided_at[known.number] is None:
                self.decided_at[known.number] = watermark
            at = self.decided_at[known.number]
            too_old = self.age_max_ms is not None and watermark is not None and at is not None
            if too_old and at < watermark - self.age_max_ms:
                self.retired.add(known.number)
            if self.entries_max is not None and known.number < len(self.known) - self.entries_max:
                self.retired.add(known.number)

    def forget(self, ids: set[str]) -> list[str]:
        """The ids of what was forgotten: those asked for, and the duplicates that entered after such an original."""
        found = [known for known in self.known if known.number not in self.retired]
        roots = {known.number for known in found if known.id in ids and known.root == known.number}
        gone = [known for known in found if known.id in ids or known.root in roots]
        self.retired.update(known.number for known in gone)
        return [known.id for known in gone]

    def give_back(self, entries: Entries) -> list[bool]:
        """Whether each row was not given back before. All rows have a kind that enters."""
        new = []
        for row in range(len(entries)):
            source = entries.sources[int(entries.source_numbers[row])]
            position, number = Position(source, int(entries.offsets[row])), len(self.known)
            new.append(position not in self.given_back)
            if new[-1]:
                kind, look = (
                    Kind(int(entries.kinds[row])),
                    b"" if entries.looks is None else entries.looks[row].tobytes(),
                )
                known = Known(number, number, kind, _fingerprint(entries, row), entries.ids[row], position, look=look)
                self.known.append(known)
                self.given_back[position] = number
                self.decided_at[number] = self.watermarks.get(source)
        self._retire(entries)
        return new

    def _decide(self, entries: Entries, row: int) -> Answer:
        position = Position(entries.sources[int(entries.source_numbers[row])], int(entries.offsets[row]))
        if position not in self.journal:
            answer = self.journal[position] = self._new(entries, row, position)
            if answer.original is not None:
                self.numbers_of_ids.setdefault(entries.ids[row], []).append(answer.original)
        return self.journal[position]

    def _new(self, entries: Entries, row: int, position: Position) -> Answer:
        kind, reason = Kind(int(entries.kinds[row])), int(entries.reasons[row])
        if kind is Kind.UNDECIDABLE:
            return Answer(Verdict.UNDECIDABLE, reason, -1, None, None, None)
        if kind is Kind.DEAD_LETTER:
            return Answer(Verdict.DEAD_LETTER, reason, -1, None, None, None)
        fingerprint, id_ = _fingerprint(entries, row), entries.ids[row]
        radius = 0 if kind is Kind.EXACT else self.distance_max
        of_kind = [known for known in self.known if known.kind is kind and known.number not in self.retired]
        if any(self.known[each].id == id_ for each in self.given_back.values() if each not in self.retired):
            of_kind = [known for known in of_kind if known.id == id_ and self._root(known.number).id == id_]
        apart = [(self.distance(known.fingerprint, fingerprint), known.number) for known in of_kind]
        matches = [(distance, number) for distance, number in apart if distance <= radius]
        look = b"" if entries.looks is None else entries.looks[row].tobytes()
        if self.second_look is not None and kind is Kind.NEAR:
            judged = [(self.second_look(each, self.known[number].look, look), number) for each, number in matches]
            matches = [(told, number) for told, number in judged if told is not None]
        number = len(self.known)
        to_root: dict[int, int] = {}
        if self.root is not None and kind is Kind.NEAR:
            for _, match in matches:
                kept = self._root(match)
                if self.known[match].root in self.retired and self.known[match].root != match:
                    # What was dropped counts only as long as what was kept.
                    continue
                bits = self.distance_to_root(kept.fingerprint, fingerprint)
                told = bits if self.second_look is None else self.second_look(bits, kept.look, look)
                if bits <= self.root.distance_max and told is not None:
                    to_root[match] = told
            matches = [(distance, match) for distance, match in matches if match in to_root]
        itself = Known(number, number, kind, fingerprint, entries.ids[row], position, look=look)
        named = entries.named is None or bool(entries.named[row])
        own = self._older_version(entries.ids[row]) if named else None
        if own is not None and self._own_version_decides(own, itself, min(matches, default=None)):
            distance = -1 if Kind.EXACT in (kind, own.kind) else self._told(own, itself)
            if (own.kind, own.fingerprint, own.look) == (kind, fingerprint, look):
                if self.insert == "all":
                    self.known.append(itself._replace(root=own.number))
                return Answer(Verdict.DUPLICATE, reason, max(distance, 0), own.number, own.id, own.position)
            self.known.append(itself)
            if self.recrawl == "as-new":
                return Answer(Verdict.UNIQUE, reason + RECRAWLED, -1, number, None, None)
            self.retired.add(own.number)
            return Answer(Verdict.UPDATE, reason, distance, number, own.id, own.position)
        if not matches:
            self.known.append(itself)
            return Answer(Verdict.UNIQUE, reason, -1, number, None, None)
        distance, match = min(matches)
        original = self._root(match)
        is_member = self.root is not None and kind is Kind.NEAR and distance > self.root.apart
        if self.insert == "all" or is_member:
            self.known.append(Known(number, original.number, kind, fingerprint, entries.ids[row], position, look=look))
        distance = to_root.get(match, distance)
        return Answer(Verdict.DUPLICATE, reason, distance, original.number, original.id, original.position)

    def _older_version(self, id_: str) -> Known | None:
        """What the last record with this id was, or resembled, where that has this id too, stands for itself and counts."""
        if self.recrawl == "duplicate" or not id_:
            return None
        for number in reversed(self.numbers_of_ids.get(id_, [])):
            known = self.known[number]
            if known.id == id_ and known.root == known.number and number not in self.retired:
                return known
        return None

    def _own_version_decides(self, own: Known, itself: Known, match: tuple[int, int] | None) -> bool:
        """Whether the older version is what a document resembles most, or nothing else does."""
        if match is None or self._root(match[1]) == own:
            return True
        if (own.kind, own.fingerprint, own.look) == (itself.kind, itself.fingerprint, itself.look):
            return True
        apart = self.distance_to_root(own.fingerprint, itself.fingerprint)
        if Kind.EXACT in (own.kind, itself.kind) or apart > self.distance_max:
            return False
        told = apart if self.second_look is None else self.second_look(apart, own.look, itself.look)
        return told is not None and told <= match[0]

    def _told(self, own: Known, itself: Known) -> int:
        """Distance that an update tells."""
        return self.distance_to_root(own.fingerprint, itself.fingerprint)

    def _root(self, match: int) -> Known:
        """What a match stands for: itself, where its root is retired."""
        root = self.known[self.known[match].root]
        return self.known[match] if root.number in self.retired else root


def _fingerprint(entries: Entries, row: int) -> int:
    fingerprint = 0
    for word in entries.fingerprints[row].tolist():
        fingerprint = fingerprint << 64 | word
    return fingerprint
