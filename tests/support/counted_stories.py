"""Stories as a person counts them from the verdicts: one document after the other, with nothing kept between."""

from collections.abc import Iterable
from typing import Any

from index import Decisions, Position, Story, Verdict
from tests.support.entries import Row


class CountedStories:
    """Roots with what joined them, by position."""

    def __init__(self) -> None:
        self.rows: dict[Position, Row] = {}
        self.root_of: dict[Position, Position] = {}

    def note(self, rows: Iterable[Row], decisions: Decisions) -> None:
        for row, verdict, original in zip(rows, decisions.verdicts.tolist(), decisions.original_positions, strict=True):
            at = Position(row.source, row.offset)
            self.rows[at] = row
            if verdict in (Verdict.DUPLICATE, Verdict.SUSPECT):
                assert original is not None
                self.root_of[at] = original

    def leave(self, at: Position) -> None:
        self.root_of.pop(at, None)

    def forget(self, root: Position) -> None:
        self.root_of = {at: of for at, of in self.root_of.items() if of != root}

    def stories(self) -> dict[Position, dict[str, Any]]:
        members: dict[Position, list[Position]] = {}
        for at, root in self.root_of.items():
            members.setdefault(root, [root]).append(at)
        return {root: self._story(of_root) for root, of_root in members.items()}

    def _story(self, members: list[Position]) -> dict[str, Any]:
        rows = [self.rows[at] for at in members]
        times_ms = [row.time_ms for row in rows if row.time_ms > 0]
        seen: dict[str, int] = {}
        for row in rows:
            if row.host:
                time_ms = row.time_ms if row.time_ms > 0 else 2**63
                seen[row.host] = min(seen.get(row.host, time_ms), time_ms)
        longest = max(row.length for row in rows)
        return {
            "documents": len(members),
            "host_count": len(seen),
            "times of hosts": sorted(seen.values())[:16],
            "first_ms": min(times_ms, default=None),
            "last_ms": max(times_ms, default=None),
            "longest": (longest, min(row.time_ms for row in rows if row.length == longest)),
            "newest": max(row.time_ms for row in rows),
            "seen": seen,
        }

    def shown(self, stories: Iterable[Story]) -> dict[Position, dict[str, Any]]:
        """The index's stories in the same form."""
        expected, shown = self.stories(), {}
        for story in stories:
            seen = expected.get(story.root.position, {}).get("seen", {})
            longest, newest = (self.rows[each.position] for each in (story.longest, story.newest))
            assert (story.longest.id, story.newest.id) == (longest.id, newest.id)
            shown[story.root.position] = {
                "documents": story.documents,
                "host_count": story.host_count,
                "times of hosts": [seen.get(host) for host in story.hosts],
                "first_ms": story.first_ms,
                "last_ms": story.last_ms,
                "longest": (longest.length, longest.time_ms),
                "newest": newest.time_ms,
                "seen": seen,
            }
        return shown
