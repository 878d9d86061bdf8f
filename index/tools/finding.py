"""What a check found."""

from collections.abc import Iterable
from dataclasses import dataclass, field

EXAMPLES_MAX = 5


@dataclass(slots=True)
class Finding:
    """What one check came to: how many things it looked at, how many were wrong, and the first of those in words."""

    check: str
    examined: int = 0
    wrong: int = 0
    examples: list[str] = field(default_factory=list)

    def note(self, problems: Iterable[str]) -> None:
        """Count problems; the first ones are kept."""
        for problem in problems:
            self.wrong += 1
            if len(self.examples) < EXAMPLES_MAX:
                self.examples.append(problem)
