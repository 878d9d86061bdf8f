"""Frames by brute force: the rule of `index.frames` for one document after the other, written as plainly as it can be.

Candidates are the documents that share a band, as `lsm.shape` gives the bands of a fingerprint; a test of its own holds these.
"""

from dataclasses import dataclass, field
from math import ceil

import numpy as np

from index import Reason
from index.frames import samples
from index.lsm.shape import shape_of
from index.matching.frame import (
    APART_BINS_MIN,
    NEW_BINS_MIN,
    OFTEN_PAGES_MIN,
    OFTEN_SHARE_MIN,
    OWN_BINS_MIN,
    OWN_DOUBT,
    OWN_SHARE_MIN,
    SAME_SHARE_MIN,
    SPLIT_SHARE_MAX,
    TEMPLATE_PAGES_MIN,
    VERSION_SHARE_MIN,
    WAITING_MAX,
    FrameRule,
)
from index.matching.host_sketch import host_keys
from index.matching.minhash import DISTANCE_UNITS
from index.storage import layout
from index.storage.parameters import Parameters
from tests.support.brute_force_index import Judged

Values = tuple[int, ...]
Frame = frozenset[int]
NO_FRAME: Frame = frozenset()


@dataclass
class Sampled:
    """Sample of a host."""

    rule: FrameRule
    pages: list[Values] = field(default_factory=list)
    waiting: list[Values] = field(default_factory=list)
    taken: int = 0
    seen: int = 0

    def frame(self, page: Values, *, is_known: bool = False) -> Frame:
        """The frame of a page; is_known: it may be in the sample itself."""
        if len(self.pages) < self.rule.pages_min:
            return NO_FRAME
        least = max(OFTEN_PAGES_MIN, ceil(OFTEN_SHARE_MIN * len(self.pages)))
        had = {at: sum(other[at] == value for other in self.pages) for at, value in enumerate(page) if value}
        if not is_known and sum(count == 0 for count in had.values()) < NEW_BINS_MIN:
            return frozenset(range(len(page)))
        return frozenset(at for at, count in had.items() if count >= least)

    def take(self, page: Values, frame: Frame) -> None:
        """Take a page, unless it brings nothing new, is a version of one, or the sample is full and it is not its turn."""
        own = [at for at, value in enumerate(page) if value and at not in frame]

        def like(others: list[Values], share: float) -> list[Values]:
            return [other for other in others if sum(page[at] == other[at] for at in own) >= share * len(own)]

        if len(frame) == len(page) or like(self.pages, SAME_SHARE_MIN):
            return
        versions = like(self.pages, VERSION_SHARE_MIN) if len(self.pages) >= self.rule.pages_min else []
        if versions:
            if like(self.waiting, SAME_SHARE_MIN):
                return
            group = like(self.waiting, VERSION_SHARE_MIN)
            if len(group) + 1 < TEMPLATE_PAGES_MIN or _piles_up(page, own, [versions[0], *group]):
                self.waiting = [*self.waiting, page][-WAITING_MAX:]
                return
            for each in group:
                self.waiting.remove(each)
                self._enter(each)
        elif len(self.pages) == self.rule.sample_max and _chance(page) % self.rule.every:
            return
        self._enter(page)

    def _enter(self, page: Values) -> None:
        if len(self.pages) < self.rule.sample_max:
            self.pages.append(page)
        else:
            self.pages[self.taken % self.rule.sample_max] = page
        self.taken += 1


def _piles_up(page: Values, own: list[int], others: list[Values]) -> bool:
    """Whether bins divide these pages into groups, rather than each page having values of its own."""
    columns = [(page[at], [other[at] for other in others]) for at in own]
    new = sum(value not in values for value, values in columns)
    split = sum(
        value in values and any(values.count(each) > 1 for each in values if each != value) for value, values in columns
    )
    return split >= SPLIT_SHARE_MAX * new


def _chance(page: Values) -> int:
    words, chance = np.frombuffer(bytes(page), "<u8").tolist(), 0
    for word in words:
        chance = ((chance ^ word) * 0x9E3779B97F4A7C15) % 2**64
    return chance >> 33


def plain_distance(one: Values, other: Values) -> int:
    """Distance of two signatures of 8 bits a bin."""
    either = sum(bool(a or b) for a, b in zip(one, other, strict=True))
    both = sum(bool(a and b) for a, b in zip(one, other, strict=True))
    return _distance(either, both, sum(a != b for a, b in zip(one, other, strict=True)))


def _distance(either: int, both: int, differing: int) -> int:
    if not either:
        return DISTANCE_UNITS
    above, below = 255 * differing - either + both, 254 * either
    return max(0, min(DISTANCE_UNITS, (2 * DISTANCE_UNITS * above + below) // (2 * below)))


def framed_distance(one: Values, frame: Frame, other: Values, of_other: Frame) -> int:
    """Distance of a page to an earlier one beside their frames."""
    plain = plain_distance(one, other)
    if one == other or not (frame or of_other) or len(frame) == len(one):
        return plain
    bins = range(len(one))
    own = {at for at in bins if one[at] and at not in frame}
    own_of_other = {at for at in bins if other[at] and at not in of_other}
    both = own & own_of_other
    either = {at for at in own | own_of_other if one[at] != other[at] or at not in frame | of_other}
    found = DISTANCE_UNITS
    if len(both) >= OWN_BINS_MIN:
        alone = _distance(len(both), len(both), sum(one[at] != other[at] for at in both))
        found = max(1, min(DISTANCE_UNITS, alone * (len(both) + OWN_DOUBT) // len(both)))
    equal = sum(one[at] == other[at] for at in either)
    if len(either) < APART_BINS_MIN or equal >= OWN_SHARE_MIN * len(either):
        found = min(found, plain)
    return found


@dataclass
class Page:
    """A document that entered."""

    number: int
    values: Values
    frame: Frame
    bands: Values
    root: int
    id: str = ""
    gone: bool = False
    length: int = 0


def own_lengths(page: Page, root: Page) -> tuple[int, int]:
    """Lengths without frames: with one frame for both, whole lengths differ by what the own ones do."""
    shares = [
        sum(bool(value) and at not in each.frame for at, value in enumerate(each.values))
        / max(1, sum(map(bool, each.values)))
        for each in (page, root)
    ]
    of_root = int(root.length * shares[1] + 1e-9)
    framed = page.frame | root.frame
    if 2 * sum(page.values[at] == root.values[at] for at in framed) >= len(framed):
        return of_root + page.length - root.length, of_root
    return int(page.length * shares[0] + 1e-9), of_root


class BruteForceFrames:
    """An index of pages."""

    def __init__(self, parameters: Parameters, longer: int = 0) -> None:
        """longer: ten-thousandths of a root's length; 0: no limit."""
        self.longer = longer
        assert parameters.frames is not None
        assert parameters.root is not None
        self.rule, self.root = parameters.frames, parameters.root
        self.distance_max, self._shape = parameters.distance_max, shape_of(parameters)
        self._frame_words = parameters.stored_words - parameters.words
        self.pages: list[Page] = []
        self.samples: dict[int, Sampled] = {}
        self._met: dict[int, int] = {}
        self._counted: dict[int, int] = {}

    def decide(
        self, signature: np.ndarray, host: str | None, id_: str, letters: int = 0
    ) -> tuple[str, str | None, int]:
        """Verdict, id of the document named, and distance to it."""
        values = tuple(signature.view(np.uint8).reshape(-1).tolist())
        frame = self._learn(values, host)
        bands = self._bands(signature, frame)
        short: list[tuple[int, int, int]] = []
        matches: list[tuple[int, int, int]] = []
        failed: list[tuple[int, int]] = []
        for page in self._candidates(bands):
            plain = plain_distance(values, page.values)
            distance = framed_distance(values, frame, page.values, page.frame)
            root = self.pages[page.root]
            if distance <= self.distance_max:
                to_root = distance
                if root is not page:
                    to_root = framed_distance(values, frame, root.values, root.frame)
                    if to_root > self.root.distance_max:
                        continue
                itself = Page(-1, values, frame, bands, -1, length=letters)
                (short if self._is_short(root, itself, to_root) else matches).append((distance, page.number, to_root))
            elif plain <= self.distance_max:
                failed.append((plain, page.number))
        number = len(self.pages)
        if matches:
            _, match, told = min(matches)
            root = self.pages[self.pages[match].root]
            is_new = len(frame) < len(values)
            nearest = min(plain_distance(values, self.pages[number].values) for _, number, _ in matches)
            if is_new and nearest > self.root.member_distance_min:
                self.pages.append(Page(number, values, frame, bands, root.number, id_, length=letters))
            return "duplicate", root.id, told
        self.pages.append(Page(number, values, frame, bands, number, id_, length=letters))
        if short:
            _, match, told = min(short)
            return "extends", self.pages[self.pages[match].root].id, told
        if failed:
            root = self.pages[self.pages[min(failed)[1]].root]
            return "template", root.id, plain_distance(values, root.values)
        return "unique", None, -1

    def judged(self, signature: np.ndarray, host: str | None, letters: int, radius: int) -> list[Judged]:
        """Why each entry within a distance would make a page a duplicate, or would not; the nearest first."""
        values = tuple(signature.view(np.uint8).reshape(-1).tolist())
        sample = self.samples.get(host_keys([host]).tolist()[0]) if host else None
        frame = NO_FRAME if sample is None else sample.frame(values, is_known=True)
        found = []
        for page in self._sharing(self._bands(signature, frame)):
            plain, distance = (
                plain_distance(values, page.values),
                framed_distance(values, frame, page.values, page.frame),
            )
            if min(plain, distance) > radius:
                continue
            root, to_root = self.pages[page.root], None
            reason = Reason.TEMPLATE_ONLY if plain <= self.distance_max else Reason.TOO_FAR
            if root.gone and reason is not Reason.TOO_FAR:
                reason = Reason.ROOT_GONE
            elif distance <= self.distance_max:
                to_root = framed_distance(values, frame, root.values, root.frame)
                itself = Page(-1, values, frame, (), -1, length=letters)
                is_short = self._is_short(root, itself, to_root)
                reason = Reason.TOO_SHORT if is_short else Reason.COUNTS
                reason = Reason.ROOT_TOO_FAR if to_root > self.root.distance_max else reason
            found.append(Judged(page.number, distance, reason, to_root))
        return sorted(found, key=lambda each: (each.distance, each.number))

    def _is_short(self, root: Page, page: Page, to_root: int) -> bool:
        own, of_root = own_lengths(page, root)
        if not (self.longer and root.length and page.length and of_root):
            return False
        if own * 10_000 < of_root * (10_000 + self.longer):
            return False
        if page.values == root.values or len(page.frame) == len(page.values):
            return False
        return not (page.frame or root.frame) or to_root >= self.longer * 10_000 // (10_000 + self.longer)

    def _learn(self, values: Values, host: str | None) -> Frame:
        if not host:
            return NO_FRAME
        (key,) = host_keys([host]).tolist()
        slot, group = key >> 48, key >> 60
        own = {host: sample for host, sample in self.samples.items() if host >> 60 == group}
        sample = own.get(key)
        if sample is None and self._met.get(slot, 0) >= samples.MET_MIN:
            if len(own) == layout.HOSTS_MAX:
                del self.samples[min(own, key=lambda host: own[host].seen)]
            sample = self.samples[key] = Sampled(self.rule)
        self._met[slot] = self._met.get(slot, 0) + 1
        self._counted[group] = self._counted.get(group, 0) + 1
        if self._counted[group] % samples.HALVED_EVERY == 0:
            self._met |= {slot: count // 2 for slot, count in self._met.items() if slot >> 12 == group}
        if sample is None:
            return NO_FRAME
        sample.seen = self._counted[group]
        frame = sample.frame(values)
        sample.take(values, frame)
        return frame

    def _bands(self, signature: np.ndarray, frame: Frame) -> Values:
        bits = sum(1 << at for at in frame)
        words = [bits >> (64 * word) & (2**64 - 1) for word in range(self._frame_words)]
        fingerprint = np.concatenate([signature.reshape(-1), np.array(words, np.uint64)])[None]
        return tuple(self._shape.hashes(fingerprint)[0].tolist())

    def _candidates(self, bands: Values) -> list[Page]:
        return [page for page in self._sharing(bands) if not self.pages[page.root].gone]

    def _sharing(self, bands: Values) -> list[Page]:
        return [
            page
            for page in self.pages
            if not page.gone and any(one == other for one, other in zip(page.bands, bands, strict=True))
        ]

    def expire(self, entries_max: int) -> None:
        """Keep only the newest entries."""
        for page in self.pages[: max(0, len(self.pages) - entries_max)]:
            page.gone = True

    def forget(self, numbers: list[int]) -> None:
        """Forget documents, originals with their members."""
        for number in numbers:
            for page in self.pages:
                page.gone |= page.number == number or page.root == number
