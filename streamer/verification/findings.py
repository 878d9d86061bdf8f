"""Verification results: a count per kind of problem, and the first ones in words."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from index import Verdict
from index.tools import Finding

EXAMPLES_MAX = 20
"""Most examples per kind."""

CHECKS = {
    "missing": "committed records of the input that came out nowhere",
    "doubled": "records of the input that came out more than once",
    "foreign": "outputs of a position that the input does not have",
    "contradiction": "outputs whose headers contradict each other, or their topic",
    "given-back": "records given back that were not dropped, or more than once",
    "value": "outputs with other value bytes than the input",
    "key": "outputs with another key than the input",
    "timestamp": "outputs with another timestamp than the input",
    "headers": "outputs without the headers of the input, or with others",
    "original-missing": "duplicates of a document that does not exist",
    "original-itself": "duplicates of themselves",
    "original-later": "duplicates of a later document",
    "original-not-unique": "duplicates of a document that is not unique",
    "original-id": "duplicates that name their original by another id than its own",
    "fingerprint": "outputs whose fingerprint, reason or id their text does not give",
    "protected": "outputs whose report of a protected set is missing, invented or another than the set gives now",
    "similarity": "duplicates that are not as similar to their original as they tell, or not enough",
    "length": "outputs whose length, relation or new share their texts or their other headers do not give",
    "longer": "duplicates that are longer than their original by more than index.longer_min",
    "new-text": "duplicates with more new text than index.new_max",
    "same-text": "duplicates with the reason same-text whose text is not the original's",
    "update-id": "updates that name a version with another id",
    "update-equal": "updates whose text is the same as that of the version that they name",
    "update-unretired": "updates whose replaced version still counts",
    "near-uniques": "unique documents that are near-duplicates of an earlier entry",
    "journal-missing": "outputs that the index does not know",
    "journal-differs": "outputs with another verdict in the index",
    "journal-foreign": "positions of the index that the input does not have",
    "entry-differs": "documents whose entry in the index is missing, or another",
}
"""Kinds of problems in reading order, each with its meaning."""

COUNTED = ("input", "outputs", *(verdict.label for verdict in Verdict), "in flight", "texts read")
"""Names of `Findings.counts` in reading order. All are shown, also those that are 0."""


class Findings:
    """Findings so far.

    counts     items read, by name
    unchecked  items by reason

    >>> findings = Findings()
    >>> findings.note(next(iter(CHECKS)), ["pages/0/7 is missing"])
    >>> findings.sound
    False
    """

    def __init__(self) -> None:
        self._by_check = {check: Finding(check, examples_max=EXAMPLES_MAX) for check in CHECKS}
        self.counts: Counter[str] = Counter(dict.fromkeys(COUNTED, 0))
        self.unchecked: Counter[str] = Counter()

    def examine(self, check: str, count: int) -> None:
        """Add to the number examined."""
        self._by_check[check].examined += count

    def note(self, check: str, problems: Iterable[str], count: int | None = None) -> None:
        """Count problems, and keep the first EXAMPLES_MAX. `count`: total, if `problems` are the first ones."""
        self._by_check[check].note(problems, count)

    def leave_out(self, reason: str, items: npt.NDArray[np.bool_] | int) -> None:
        """Count unchecked items: a number, or a row mask."""
        self.unchecked[reason] += int(np.sum(items))

    def excuse(self, reason: str, problems: npt.NDArray[np.bool_], excused: npt.NDArray[np.bool_] | bool) -> None:
        """Leave out the excused problems, and take their flags off."""
        self.leave_out(reason, problems & excused)
        problems &= ~np.asarray(excused)

    def __getitem__(self, check: str) -> Finding:
        return self._by_check[check]

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._by_check.values())

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not any(finding.wrong for finding in self._by_check.values())

    def as_json(self) -> dict[str, Any]:
        """Findings for machines."""
        return {
            "sound": self.sound,
            "counts": dict(self.counts),
            "unchecked": dict(self.unchecked),
            "checks": [finding.as_json() for finding in self],
        }
