"""Families by brute force: the rule of `index.families` for one document after the other, written as plainly as it can be."""

from dataclasses import dataclass, field

from index.matching.minhash import Banding, band_keys, unpack_bins
from index.storage.parameters import Parameters
from tests.support.template_values import needed_of, own_of

POSTINGS = 32
KEYS = 8
TEMPLATES = 4


@dataclass
class Page:
    number: int
    values: tuple[int, ...]
    root: int
    head: int
    bands: frozenset[int] = frozenset()
    by_own: list[tuple[int, int]] = field(default_factory=list)
    gone: bool = False
    id: str = ""


@dataclass
class Ballot:
    voters: int
    values: list[int]
    leads: list[int]
    known: bool = False


def mixed(key: int) -> int:
    """SplitMix64's end."""
    key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    key = (key ^ (key >> 27)) * 0x94D049BB133111EB % 2**64
    return key ^ (key >> 31)


class BruteForceFamilies:
    """Verdicts "unique", "duplicate" and "template", with the number of the document named and the distance to it."""

    def __init__(self, parameters: Parameters) -> None:
        assert parameters.banding is not None
        assert parameters.root is not None
        assert parameters.template is not None
        self.parameters, self.rule, self.root = parameters, parameters.template, parameters.root
        self.banding: Banding = parameters.banding
        self.pages: list[Page] = []
        self.ballots: dict[int, Ballot] = {}
        self.filed: dict[tuple[int, int], list[int]] = {}

    def apart(self, one: tuple[int, ...], other: tuple[int, ...]) -> int:
        """As `signature_distances`."""
        values = 2**self.banding.bin_bits - 1
        pairs = list(zip(one, other, strict=True))
        either = sum(1 for left, right in pairs if left or right)
        both = sum(1 for left, right in pairs if left and right)
        above = values * sum(left != right for left, right in pairs) - either + both
        below = (values - 1) * either
        return max(0, min(10_000, (2 * 10_000 * above + below) // (2 * below))) if either else 10_000

    def template(self, head: int) -> tuple[int, ...] | None:
        ballot = self.ballots.get(head)
        return tuple(ballot.values) if ballot is not None and ballot.known else None

    def decide(self, signature: object) -> tuple[str, int | None, int]:
        values = tuple(unpack_bins(signature, self.banding.bin_bits)[0].tolist())  # type: ignore[arg-type]
        bands = frozenset(band_keys(signature, self.banding)[0].tolist())  # type: ignore[arg-type]
        number = len(self.pages)
        found = self._candidates(values, bands)
        match, failed = None, None
        for distance, other in sorted(found):
            if distance > self.parameters.distance_max:
                break
            page = self.pages[other]
            if page.root != other and self.apart(values, self.pages[page.root].values) > self.root.distance_max:
                continue
            template = self.template(page.head)
            if template is not None and distance > 0 and not self._one_page(values, page.values, template):
                failed = other if failed is None else failed
                continue
            match = (distance, other)
            break
        if match is not None:
            other = self.pages[match[1]]
            head, voting, root = other.head, match[0] > 0, other.root
            answer = ("duplicate", root, self.apart(values, self.pages[root].values))
            enters = match[0] > self.root.apart
        elif failed is not None:
            head, voting, root, enters = self.pages[failed].head, True, number, True
            named = self.pages[failed].root
            answer = ("template", named, self.apart(values, self.pages[named].values))
        else:
            relative = self._relative(values, sorted(found))
            head, voting, root, enters = (number if relative is None else relative), relative is not None, number, True
            answer = ("unique", None, -1)
        known = self.template(head) is not None
        if voting and not known:
            self._vote(head, values)
        if enters:
            page = Page(number, values, root, head)
            if known:
                self._file(page)
            if not page.by_own:
                page.bands = bands
            self.pages.append(page)
        return answer

    def _candidates(self, values: tuple[int, ...], bands: frozenset[int]) -> list[tuple[int, int]]:
        reach = max(self.parameters.distance_max, self.rule.relatives_apart)
        by_bands = [page for page in self.pages if not page.gone and page.bands & bands]
        found = {page.number: self.apart(values, page.values) for page in by_bands}
        found = {number: distance for number, distance in found.items() if distance <= reach}
        heads = {self.pages[number].head for number in found}
        templates = [(head, template) for head in heads if (template := self.template(head)) is not None]
        # Equally near templates are taken in any order: tests take care that four are enough.
        nearest = sorted((self.apart(values, template), head) for head, template in templates)[:TEMPLATES]
        for distance, head in nearest:
            if distance <= self.rule.relatives_apart:
                for key in self._keys(values, head):
                    for number in self.filed.get((head, key), []):
                        if not self.pages[number].gone:
                            found.setdefault(number, self.apart(values, self.pages[number].values))
        return [(distance, number) for number, distance in found.items() if distance <= reach]

    def _keys(self, values: tuple[int, ...], head: int) -> list[int]:
        template = self.template(head)
        assert template is not None
        keys = sorted((bin_ * 256 + values[bin_] for bin_ in own_of(values, template)), key=mixed)
        return [*keys, 255 * 256] if len(keys) < needed_of(values) else keys

    def _one_page(self, values: tuple[int, ...], other: tuple[int, ...], template: tuple[int, ...]) -> bool:
        columns = list(zip(values, other, template, strict=True))
        differing = [(one, two) for one, two, of in columns if (one != of or two != of) and (one or two)]
        equal = sum(one == two for one, two in differing)
        return len(differing) < needed_of(values) or 4 * equal >= len(differing)

    def _relative(self, values: tuple[int, ...], found: list[tuple[int, int]]) -> int | None:
        for _, number in found:
            head = self.pages[number].head
            reference = self.template(head) or self.pages[head].values
            if self.apart(values, reference) <= self.rule.relatives_apart:
                return head
        return None

    def _vote(self, head: int, values: tuple[int, ...]) -> None:
        ballot = self.ballots.setdefault(head, Ballot(0, list(self.pages[head].values), [1] * len(values)))
        ballot.voters += 1
        for bin_, value in enumerate(values):
            if ballot.values[bin_] == value:
                ballot.leads[bin_] += 1
            elif ballot.leads[bin_] == 0:
                ballot.values[bin_], ballot.leads[bin_] = value, 1
            else:
                ballot.leads[bin_] -= 1
        ballot.known = ballot.voters >= self.rule.voters

    def _file(self, page: Page) -> None:
        template = self.template(page.head)
        assert template is not None
        if self.apart(page.values, template) > self.rule.filed_apart:
            return
        free = [
            key for key in self._keys(page.values, page.head) if len(self.filed.get((page.head, key), [])) < POSTINGS
        ]
        chosen = [key for key in free if key != 255 * 256][:KEYS] + [key for key in free if key == 255 * 256]
        for key in chosen:
            self.filed.setdefault((page.head, key), []).append(page.number)
        page.by_own = [(page.head, key) for key in chosen]

    def forget(self, numbers: list[int]) -> None:
        """Forget documents, originals with their members."""
        for number in numbers:
            for page in self.pages:
                if page.number == number or (page.root == number and self.pages[number].root == number):
                    self._leave(page)

    def _leave(self, page: Page) -> None:
        if page.gone:
            return
        page.gone = True
        for place in page.by_own:
            self.filed[place].remove(page.number)
        visible = [other for other in self.pages if not other.gone]
        if not any(other.head == page.head and (other.root == other.number or other.by_own) for other in visible):
            self.ballots.pop(page.head, None)
