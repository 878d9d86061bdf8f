"""The result of a check."""

from collections.abc import Iterable
from dataclasses import dataclass, field

EXAMPLES_MAX = 5


@dataclass(slots=True)
class Finding:
    """Result of one check: counts of examined and wrong things, and the first wrong ones in words."""

    check: str
    examined: int = 0
    wrong: int = 0
    examples: list[str] = field(default_factory=list)

    def note(self, problems: Iterable[str]) -> None:
        """Count problems, and keep the first EXAMPLES_MAX."""
        for problem in problems:
            self.wrong += 1
            if len(self.examples) < EXAMPLES_MAX:
                self.examples.append(problem)
