"""The index by brute force: the same rule as `Index.admit`, written as plainly as it can be. It compares all pairs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from index import Reason
from index.entry import Entries, Kind, Position, Source, Verdict
from index.matching.root import RootRule

MINOR = 50
"""Added to the reason of a version of the same substance."""

RETURNED = 200
"""Added to the reason of a version that has returned to an earlier text too often."""

OTHER_TEXT, SHARED_ID = 100, 150
"""Likewise: of an update with nothing in common with the text before, and of a unique document with a shared id."""

STRANGERS_MAX, OWN_LETTERS_MIN = 2, 100

ROWS_OF_ID_MAX = 64

Key = tuple[str, str]


class Known(NamedTuple):
    number: int
    root: int
    kind: Kind
    fingerprint: int
    id: str
    position: Position
    time_ms: int = 0
    look: bytes = b""
    host: str = ""
    text: object = None
    substance: object = None
    length: int = 0

    @property
    def key(self) -> Key:
        return self.id, self.host


@dataclass
class Crawled:
    """One record with an id: what it was, or was a duplicate of."""

    host: str
    number: int
    text: object
    substance: object
    returns: int
    position: Position
    strangers: int = 0
    at: int | None = None
    """The watermark of its source when it was decided."""


class Answer(NamedTuple):
    verdict: Verdict
    reason: int
    distance: int
    original: int | None
    original_id: str | None
    original_position: Position | None


class Judged(NamedTuple):
    """What is said of an entry near a document; root_distance: None unless the root was measured."""

    number: int
    distance: int
    reason: Reason
    root_distance: int | None


@dataclass
class BruteForceIndex:
    distance_max: int
    entries_max: int | None = None
    age_max_ms: int | None = None
    recrawl: str = "duplicate"
    second_look: Callable[[int, bytes, bytes], tuple[int, bool]] | None = None
    """From the distance of two documents and their looks: what the match is told as, and whether it counts."""
    root: RootRule | None = None
    longer: int = 0
    """Ten-thousandths of a root's length; 0: no limit."""
    known: list[Known] = field(default_factory=list)
    journal: dict[Position, Answer] = field(default_factory=dict)
    applied: dict[Source, int] = field(default_factory=dict)
    retired: set[int] = field(default_factory=set)
    times: dict[Source, list[int]] = field(default_factory=dict)
    watermarks: dict[Source, int] = field(default_factory=dict)
    returns_max: int = 4
    crawled: dict[str, list[Crawled]] = field(default_factory=dict)
    """By id: its records that were decided by their texts."""
    expired: set[int] = field(default_factory=set)
    """Of the retired ones those that no one asked for."""
    decided_at: dict[int, int | None] = field(default_factory=dict)
    """By number: the watermark of its source when it was decided; None as long as there is none."""
    given_back: dict[Position, int] = field(default_factory=dict)
    """Number of the document that was given back at a position."""
    updated: set[int] = field(default_factory=set)
    """Updates of what was given back, and their updates."""

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
        self._note_times()
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
        self._note_times()
        for known in self.known:
            watermark = self.watermarks.get(known.position.source)
            if self.decided_at[known.number] is None:
                self.decided_at[known.number] = watermark
            at = self.decided_at[known.number]
            too_old = self.age_max_ms is not None and watermark is not None and at is not None
            if too_old and at < watermark - self.age_max_ms:
                self.retired.add(known.number)
                self.expired.add(known.number)
            if self.entries_max is not None and known.number < len(self.known) - self.entries_max:
                self.retired.add(known.number)
                self.expired.add(known.number)

    def _note_times(self) -> None:
        """Records that came before their source had a watermark get its first one."""
        for each in (each for of_id in self.crawled.values() for each in of_id if each.at is None):
            each.at = self.watermarks.get(each.position.source)

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
                host, (text, substance) = _host(entries, row), _digests(entries, row)
                known = known._replace(length=int(entries.letters[row]), host=host, text=text, substance=substance)
                self.known.append(known)
                self.crawled.setdefault(known.id, []).append(Crawled(host, number, text, substance, 0, position))
                self.given_back[position] = number
                self.decided_at[number] = self.watermarks.get(source)
        if any(new):
            # Without a new entry nothing is written, and no horizon moves.
            self._retire(entries)
        return new

    def _decide(self, entries: Entries, row: int) -> Answer:
        position = Position(entries.sources[int(entries.source_numbers[row])], int(entries.offsets[row]))
        if position not in self.journal:
            self._returns = self._strangers = 0
            self._is_shared = False
            answer = self.journal[position] = self._new(entries, row, position)
            if answer.original is not None:
                host = _host(entries, row)
                text, substance = _digests(entries, row)
                counts = self._returns, position, self._strangers
                crawled = Crawled(host, answer.original, text, substance, *counts)
                self.crawled.setdefault(entries.ids[row], []).append(crawled)
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
        given_back = {*self.given_back.values(), *self.updated} - self.retired
        is_back = any(self.known[each].id == id_ for each in given_back)
        if is_back:
            of_kind = [known for known in of_kind if known.id == id_ and self._root(known.number).id == id_]
        apart = [(self.distance(known.fingerprint, fingerprint), known.number) for known in of_kind]
        matches = [(distance, number) for distance, number in apart if distance <= radius]
        look = b"" if entries.looks is None else entries.looks[row].tobytes()
        if kind is Kind.NEAR:
            judged = [(*self._looked_at(each, self.known[number], look), number) for each, number in matches]
            matches = [(told, number) for told, counts, number in judged if counts]
        number = len(self.known)
        to_root: dict[int, int] = {}
        if self.root is not None and kind is Kind.NEAR:
            for _, match in matches:
                kept = self._root(match)
                if self.known[match].root in self.retired and self.known[match].root != match:
                    # What was dropped counts only as long as what was kept.
                    continue
                bits = self.distance_to_root(kept.fingerprint, fingerprint)
                told, counts = self._looked_at(bits, kept, look)
                if bits <= self.root.distance_max and counts:
                    to_root[match] = told
            matches = [(distance, match) for distance, match in matches if match in to_root]
        length = int(entries.letters[row])
        short = [each for each in matches if self._is_short(self._root(each[1]), length, fingerprint)]
        matches = [each for each in matches if each not in short]
        text, substance = _digests(entries, row)
        itself = Known(number, number, kind, fingerprint, id_, position, 0, look, _host(entries, row), text, substance)
        itself = itself._replace(length=length)
        named = entries.named is None or bool(entries.named[row])
        answer = self._by_versions(itself, reason, min(matches, default=None)) if named else None
        if answer is not None:
            return answer
        if not matches:
            self.known.append(itself)
            if not short:
                return Answer(Verdict.UNIQUE, reason + SHARED_ID * self._is_shared, -1, number, None, None)
            distance, match = min(short)
            named_root = self._root(match)
            told_as = to_root.get(match, distance)
            return Answer(Verdict.EXTENDS, reason, told_as, number, named_root.id, named_root.position)
        distance, match = min(matches)
        original = self._root(match)
        if self.root is not None and kind is Kind.NEAR and distance > self.root.member_distance_min:
            self.known.append(itself._replace(root=original.number))
        distance = to_root.get(match, distance)
        return Answer(Verdict.DUPLICATE, reason, distance, original.number, original.id, original.position)

    def judged(self, entries: Entries, row: int, radius: int) -> list[Judged]:
        """Why each entry within a distance would make a document a duplicate, or would not; the nearest first."""
        kind, fingerprint = Kind(int(entries.kinds[row])), _fingerprint(entries, row)
        radius = 0 if kind is Kind.EXACT else radius
        counting = [known for known in self.known if known.kind is kind and known.number not in self.retired]
        near = [known for known in counting if self.distance(known.fingerprint, fingerprint) <= radius]
        found = [self._judged(entries, row, known) for known in near]
        return sorted(found, key=lambda each: (each.distance, each.number))

    def _judged(self, entries: Entries, row: int, known: Known) -> Judged:
        kind, id_, fingerprint = Kind(int(entries.kinds[row])), entries.ids[row], _fingerprint(entries, row)
        root, look = self._root(known.number), b"" if entries.looks is None else entries.looks[row].tobytes()
        distance = self.distance_to_root(known.fingerprint, fingerprint) if kind is Kind.NEAR else 0
        is_far, is_alike = distance > self.distance_max, True
        if kind is Kind.NEAR and not is_far:
            distance, is_alike = self._looked_at(distance, known, look)
        given_back = {*self.given_back.values(), *self.updated} - self.retired
        is_back = any(self.known[each].id == id_ for each in given_back)
        if is_back and not (known.id == id_ == root.id):
            return Judged(known.number, distance, Reason.OTHER_ID, None)
        if is_far:
            return Judged(known.number, distance, Reason.TOO_FAR, None)
        if not is_alike:
            return Judged(known.number, distance, Reason.REFUSED, None)
        if known.root in self.retired and known.root != known.number:
            return Judged(known.number, distance, Reason.ROOT_GONE, None)
        to_root = distance
        if kind is Kind.NEAR and root != known:
            assert self.root is not None
            to_root = self.distance_to_root(root.fingerprint, fingerprint)
            if to_root > self.root.distance_max:
                return Judged(known.number, distance, Reason.ROOT_TOO_FAR, to_root)
            to_root, is_alike = self._looked_at(to_root, root, look)
            if not is_alike:
                return Judged(known.number, distance, Reason.ROOT_TOO_FAR, to_root)
        is_short = self._is_short(root, int(entries.letters[row]), fingerprint)
        return Judged(known.number, distance, Reason.TOO_SHORT if is_short else Reason.COUNTS, to_root)

    def _looked_at(self, distance: int, known: Known, look: bytes) -> tuple[int, bool]:
        return (distance, True) if self.second_look is None else self.second_look(distance, known.look, look)

    def _is_short(self, root: Known, length: int, fingerprint: int) -> bool:
        known = self.longer and length and root.length
        return (
            bool(known) and length * 10_000 >= root.length * (10_000 + self.longer) and fingerprint != root.fingerprint
        )

    def _versions(self, key: Key) -> list[Crawled]:
        """Records of a document that count, the last one last."""
        return [
            each
            for each in self.crawled.get(key[0], [])[-ROWS_OF_ID_MAX:]
            if each.host == key[1] and each.number not in self.expired and not self._is_old(each)
        ]

    def _is_old(self, crawled: Crawled) -> bool:
        watermark = self.watermarks.get(crawled.position.source)
        if self.age_max_ms is None or watermark is None or crawled.at is None:
            return False
        return crawled.at < watermark - self.age_max_ms

    def _by_versions(self, itself: Known, reason: int, match: tuple[int, int] | None) -> Answer | None:
        """The answer that the older versions of a document give; None where they say nothing."""
        versions = [] if self.recrawl == "duplicate" or not itself.id else self._versions(itself.key)
        if not versions:
            return None
        last = versions[-1]
        self._returns, self._strangers = last.returns, last.strangers
        if any(each.strangers > STRANGERS_MAX for each in versions):
            self._strangers = STRANGERS_MAX + 1
        of_last = self.known[last.number]
        own = [self.known[each.number] for each in reversed(versions) if self._is_own(self.known[each.number], itself)]
        standing = next((each for each in own if each.number not in self.retired), None)
        dropped, visible = not self._is_own(of_last, itself), last.number not in self.retired
        if dropped and visible and last.text == itself.text:
            return None
        if standing is not None and standing.text == itself.text:
            return self._duplicate(reason, standing, max(self._told(standing, itself), 0))
        if standing is not None and standing.substance == itself.substance:
            return self._minor(itself, reason, standing)
        same = dropped and last.substance == itself.substance
        if same and visible:
            return self._minor(itself, reason, of_last)
        older = [each for each in (of_last if dropped and not same else None, standing) if each is not None]
        if not any(self._older_version_decides(each, itself, match) for each in older):
            return None
        kin = {self._is_kin(each, itself) for each in (of_last, standing) if each is not None}
        returns = itself.substance in [each.substance for each in versions]
        kinship = True if True in kin else False if False in kin and not returns else None
        known_as_shared = self._strangers > STRANGERS_MAX
        if (kinship is not True and known_as_shared) or (kinship is False and self._strangers == STRANGERS_MAX):
            self._strangers, self._is_shared = STRANGERS_MAX + 1, True
            return None
        named = standing or (of_last if dropped and visible else None)
        if returns and last.returns >= self.returns_max and named is not None:
            return self._minor(itself, reason - MINOR + RETURNED, named)
        self._returns = last.returns + 1 if returns else 0
        if kinship is not None and not known_as_shared:
            self._strangers = 0 if kinship else self._strangers + 1
        return self._version(itself, reason + OTHER_TEXT * (kinship is False), standing, last)

    def _is_kin(self, older: Known, itself: Known) -> bool | None:
        """Whether two texts have anything in common; None if it cannot be said."""
        if Kind.EXACT in (older.kind, itself.kind):
            return None
        if not self.is_unlike(older.fingerprint, itself.fingerprint):
            return True
        return False if min(older.length, itself.length) >= OWN_LETTERS_MIN else None

    def is_unlike(self, known: int, fingerprint: int) -> bool:
        return (known ^ fingerprint).bit_count() > 20

    def _is_own(self, known: Known, itself: Known) -> bool:
        return known.key == itself.key and known.root == known.number

    def _duplicate(self, reason: int, original: Known, distance: int) -> Answer:
        return Answer(Verdict.DUPLICATE, reason, distance, original.number, original.id, original.position)

    def _minor(self, itself: Known, reason: int, older: Known) -> Answer:
        return self._duplicate(reason + MINOR, older, self._told(older, itself))

    def _version(self, itself: Known, reason: int, standing: Known | None, last: Crawled) -> Answer:
        self.known.append(itself)
        if standing is None:
            return Answer(Verdict.UPDATE, reason, -1, itself.number, itself.id, last.position)
        self.retired.add(standing.number)
        if standing.number in self.given_back.values() or standing.number in self.updated:
            self.updated.add(itself.number)
        return Answer(
            Verdict.UPDATE, reason, self._told(standing, itself), itself.number, standing.id, standing.position
        )

    def _older_version_decides(self, older: Known, itself: Known, match: tuple[int, int] | None) -> bool:
        """Whether an older version is what a document resembles most, or nothing else does."""
        if match is None or self._root(match[1]) == older:
            return True
        apart = self.distance_to_root(older.fingerprint, itself.fingerprint)
        if Kind.EXACT in (older.kind, itself.kind) or apart > self.distance_max:
            return False
        told, counts = self._looked_at(apart, older, itself.look)
        return counts and told <= match[0]

    def _told(self, older: Known, itself: Known) -> int:
        """Distance that a verdict tells of an older version."""
        if Kind.EXACT in (older.kind, itself.kind):
            return -1
        return self._looked_at(self.distance_to_root(older.fingerprint, itself.fingerprint), older, itself.look)[0]

    def _root(self, match: int) -> Known:
        """What a match stands for: itself, where its root is retired."""
        root = self.known[self.known[match].root]
        return self.known[match] if root.number in self.retired else root


def _fingerprint(entries: Entries, row: int) -> int:
    fingerprint = 0
    for word in entries.fingerprints[row].tolist():
        fingerprint = fingerprint << 64 | word
    return fingerprint


def _host(entries: Entries, row: int) -> str:
    return (entries.hosts[row] if entries.hosts is not None else None) or ""


def _digests(entries: Entries, row: int) -> tuple[object, object]:
    """What stands for the text and its substance."""
    if entries.digests is not None:
        text, substance = entries.digests[row].tolist()
        return text, substance
    look = b"" if entries.looks is None else entries.looks[row].tobytes()
    whole = int(entries.kinds[row]), entries.fingerprints[row].tobytes(), look
    return whole, whole
