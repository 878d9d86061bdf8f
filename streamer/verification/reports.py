"""What outputs report of protected sets, compared with what the sets say of the outputs' fingerprints."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from index import Entries, Kind, Parameters, Source
from streamer.delivered.table import Table, blobs
from streamer.protected.sets import ProtectedSets
from streamer.records.record import ProtectedMatch
from streamer.transports.output_log import Output
from streamer.verification.findings import Findings


class Print(NamedTuple):
    """A document's kind, fingerprint and second look as bytes. None: without one.

    >>> Print(Kind.NEAR, bytes(8)).look is None
    True
    """

    kind: int
    fingerprint: bytes | None
    look: bytes | None = None


@dataclass(frozen=True, slots=True)
class ReportCheck:
    """Compares reports with open sets, which answer from a fingerprint alone.

    >>> from streamer.delivered.table import opened
    >>> from streamer.transports.output_log import Extent
    >>> with opened(folder / "delivered", Extent({}, {}, {}, {}, outputs=0, inputs=0)) as table:
    ...     ReportCheck(table, Findings(), ProtectedSets({}, {}), Parameters()).add([], {})
    """

    _table: Table
    _findings: Findings
    _sets: ProtectedSets
    _parameters: Parameters

    def add(self, outputs: Sequence[tuple[Output, int]], prints: Mapping[int, Print]) -> None:
        """Check outputs, each with its row. `prints` by row: a document without one is left out. Raises IndexDamagedError."""
        for each, _ in outputs:
            for name in {match.set_name for match in each.headers.protected} - {*self._sets.names}:
                self._findings.leave_out(
                    f"reports of the protected set {name}, which index.protected does not name: name its folder (--protected)",
                    1,
                )
        if not self._sets.names:
            return
        known = [(each, row) for each, row in outputs if row in prints or not _is_document(each)]
        self._findings.leave_out(
            "reports of protected sets on documents without a fingerprint", len(outputs) - len(known)
        )
        self._findings.examine("protected", len(known))
        nothing = Print(Kind.DEAD_LETTER, None)
        expected = self._sets.matches(self._entries([prints.get(row, nothing) for _, row in known])).rows
        for (each, row), matches in zip(known, expected, strict=True):
            if problems := self._problems(each.headers.protected, matches):
                self._findings.note("protected", [f"{self._table.text(row)}: {', and '.join(problems)}"])

    def _entries(self, prints: Sequence[Print]) -> Entries:
        count, parameters = len(prints), self._parameters
        return Entries(
            (Source("", 0),),
            np.zeros(count, np.uint32),
            np.arange(count, dtype=np.uint64),
            np.array([each.kind for each in prints], np.uint8),
            np.zeros(count, np.uint8),
            blobs([each.fingerprint for each in prints], "<u8", parameters.words),
            np.zeros(count, np.int64),
            [""] * count,
            looks=blobs([each.look for each in prints], np.uint8, parameters.look_bytes),
        )

    def _problems(self, told: Sequence[ProtectedMatch], expected: Sequence[ProtectedMatch]) -> list[str]:
        """What is wrong with a document's report, set by set."""
        told_by_set, expected_by_set = ({each.set_name: each for each in some} for some in (told, expected))
        problems = []
        for name in self._sets.names:
            before, now = told_by_set.get(name), expected_by_set.get(name)
            if before is None and now is not None:
                problems.append(f"does not report {_shown(now)} of the protected set {name}")
            elif before is not None and now is None:
                problems.append(f"reports {_shown(before)} of the protected set {name}, and resembles nothing there")
            elif before != now and before is not None and now is not None:
                problems.append(f"reports {_shown(before)} of the protected set {name}, and resembles {_shown(now)}")
        return problems


def _is_document(output: Output) -> bool:
    verdict = output.headers.verdict
    return verdict is not None and (verdict.stands_for_itself or verdict.names_original)


def _shown(match: ProtectedMatch) -> str:
    measure = f"distance {match.distance}" if match.similarity is None else f"similarity {match.similarity}"
    return f"{match.id!r} ({measure})"
