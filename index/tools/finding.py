"""A check's result."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

EXAMPLES_MAX = 5


@dataclass(slots=True)
class Finding:
    """A check's result: counts of examined and wrong things, and the first `examples_max` wrong ones in words.

    >>> finding = Finding("log", examined=3)
    >>> finding.note(["Row 7 is missing."])
    >>> finding.as_json()
    {'check': 'log', 'examined': 3, 'wrong': 1, 'examples': ['Row 7 is missing.']}
    """

    check: str
    examined: int = 0
    wrong: int = 0
    examples: list[str] = field(default_factory=list)
    examples_max: int = EXAMPLES_MAX

    def note(self, problems: Iterable[str], count: int | None = None) -> None:
        """Count problems, and keep the first. `count`: their number, if `problems` are just the first."""
        listed = list(problems)
        self.examples += listed[: max(0, self.examples_max - len(self.examples))]
        self.wrong += len(listed) if count is None else count

    def as_json(self) -> dict[str, Any]:
        """Result for machines."""
        return {"check": self.check, "examined": self.examined, "wrong": self.wrong, "examples": self.examples}
