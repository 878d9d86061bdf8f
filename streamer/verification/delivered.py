"""Every input record came out once, unchanged."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from index import Position, Source, Verdict
from streamer.records.reason import AS_NEW, MINOR, SAME, Reason, label
from streamer.records.record import Destination
from streamer.records.route import DESTINATIONS, destination_of
from streamer.transports.output_log import Extent, Output
from streamer.verification.findings import EXAMPLES_MAX, Findings
from streamer.verification.ledger import DIGESTS, ELSEWHERE, Ledger, Stretches, digest_of_text, digests_of, within
from streamer.verification.position_table import NO_VERDICT, NONE, chunks
from streamer.verification.texts import TextCheck

_EVERYTHING = 2**63
_VERSIONS = {(Verdict.UNIQUE, label(Verdict.UNIQUE, reason)) for reason in AS_NEW.values()} | {
    (verdict, label(verdict, reason)) for verdict in (Verdict.UNIQUE, Verdict.DUPLICATE) for reason in MINOR.values()
}
_SAME_TEXT = {label(Verdict.DUPLICATE, reason) for reason in SAME.values()}
_UNREADABLE = label(Verdict.DEAD_LETTER, Reason.UNREADABLE)


@dataclass
class DeliveredCheck:
    """Compares outputs with the ledger, and writes their verdicts into it.

    streams          all streams known to the index: an output from another stream is foreign
    settings_digest  for the current settings: see `streamer.fingerprint.scheme`
    """

    ledger: Ledger
    extent: Extent
    findings: Findings
    streams: frozenset[str]
    texts: TextCheck
    settings_digest: str
    has_headers: bool = True
    _least: dict[tuple[str, Source], int] = field(default_factory=dict)
    """A source's least offset in a trimmed log."""
    _begun: dict[Source, int] = field(default_factory=dict)
    """A source's least offset in any output."""
    _stood_for: Stretches = field(default_factory=dict)
    """Offsets that a dead letter reports as unreadable."""
    _came_out: dict[Source, set[int]] = field(default_factory=dict)
    """Offsets with an output whose record is unreadable now."""

    def add(self, outputs: Sequence[Output]) -> None:
        """Check a batch of outputs."""
        self.findings.examine("contradiction", len(outputs))
        self.findings.note(
            "contradiction",
            (f"{each.place}: {each.headers.contradicts}" for each in outputs if each.headers.contradicts),
        )
        self.findings.examine("foreign", len(outputs))
        by_source: dict[Source, list[Output]] = {}
        for each in outputs:
            if each.headers.verdict is not None:
                self.findings.counts[each.headers.verdict.label] += 1
            if each.headers.position is None:
                self.findings.note("foreign", [f"{each.place}: names no position of an input"])
            else:
                by_source.setdefault(each.headers.position.source, []).append(each)
        for source, of_source in by_source.items():
            self._add_source(source, of_source)

    def finish(self, *, strict_start: bool) -> None:
        """Note records that did not come out; after the index is in the ledger.

        strict_start  whether the service was to begin at the first record; else records before the first output are excused
        """
        for source, base, offsets in self.ledger.sources():
            committed = self.extent.committed.get(source, 0)
            places = int(np.searchsorted(offsets, committed))
            self.findings.examine("missing", places)
            self.findings.counts["in flight"] += len(offsets) - places
            excused_below = 0 if strict_start else self._begun.get(source, committed)
            trimmed_below = self._trimmed_below(source)
            for part in chunks(places):
                rows = np.arange(part.start, part.stop) + base
                counts = self.ledger.state["outputs"][rows]
                self._note_rows("doubled", rows[counts > 1])
                silent = rows[counts == 0]
                stood_for = within(self._stood_for, source, offsets[silent - base])
                self.findings.unchecked["records that could not be read, with a dead letter that stands for them"] += (
                    int(stood_for.sum())
                )
                silent = silent[~stood_for]
                at = offsets[silent - base]
                journaled = self.ledger.state["journaled"][silent]
                before, trimmed = at < excused_below, (at >= excused_below) & (at < trimmed_below[journaled])
                self.findings.unchecked["before the first output (recovery.first_start)"] += int(before.sum())
                self.findings.unchecked["older than what is left of the outputs"] += int(trimmed.sum())
                self._note_rows("missing", silent[~before & ~trimmed])
            for part in chunks(len(offsets) - places):
                rows = np.arange(part.start, part.stop) + places + base
                self._note_rows("doubled", rows[self.ledger.state["outputs"][rows] > 1])
            self.findings.examine("doubled", len(offsets))
            self._check_given_back(base, offsets, trimmed_below)
        for source in self.ledger.unreadable:
            committed = self.extent.committed.get(source, 0)
            first = 0 if strict_start else self._begun.get(source, committed)
            self._look_for_unreadable(source, max(first, int(self._trimmed_below(source)[NO_VERDICT])), committed)

    def _check_given_back(
        self, base: int, offsets: npt.NDArray[np.uint64], trimmed_below: npt.NDArray[np.uint64]
    ) -> None:
        """Check that each given-back record was dropped, came out once, and is given back in the index too."""
        for part in chunks(len(offsets)):
            rows = np.arange(part.start, part.stop) + base
            state, at = self.ledger.state[rows], offsets[part]
            given_back = state["given_back"] > 0
            known = state["known_given_back"] > 0
            self.findings.examine("given-back", int(given_back.sum()))
            self._note_rows("given-back", rows[state["given_back"] > 1])
            dropped = (state["outputs"] > 0) & (state["verdict"] == Verdict.DUPLICATE)
            dropped |= (state["outputs"] == 0) & (at < trimmed_below[Verdict.DUPLICATE])
            self._note_rows("given-back", rows[given_back & ~dropped])
            self.findings.unchecked["given back, and not known to the index (any more)"] += int(
                (given_back & ~known).sum()
            )
            # The index is read last, so a running command may have decided them since.
            self.findings.unchecked["given back, and not in the outputs (yet): if no give-back runs, run it again"] += (
                int((known & ~given_back).sum())
            )

    def _look_for_unreadable(self, source: Source, first: int, end: int) -> None:
        """Note unreadable offsets from `first` to `end` without an output or a dead letter."""
        for stretch in self.ledger.unreadable[source]:
            begin = max(stretch.start, first)
            offsets = np.arange(begin, max(begin, min(stretch.stop, end)), dtype=np.uint64)
            self.findings.examine("missing", len(offsets))
            accounted = within(self._stood_for, source, offsets)
            accounted |= np.isin(offsets, np.fromiter(self._came_out.get(source, ()), np.uint64))
            missing = [Position(source, offset) for offset in offsets[~accounted].tolist()]
            self.findings.note(
                "missing",
                [
                    f"{self.ledger.position_text(position)}: cannot be read, and no dead letter stands for it"
                    for position in missing[:EXAMPLES_MAX]
                ],
                len(missing),
            )

    def _trimmed_below(self, source: Source) -> npt.NDArray[np.uint64]:
        """Offset below which a source's outputs may have left their logs, by verdict: uint64 [256].

        Without a verdict in the index, any log may have held the output. In shadow mode, a duplicate may have been in the unique
        output.
        """
        below = dict.fromkeys(Destination, 0)
        for log, destination in self.extent.trimmed.items():
            below[destination] = max(below[destination], self._least.get((log, source), _EVERYTHING))
        by_verdict = np.full(NO_VERDICT + 1, max(below.values()), np.uint64)
        for verdict, destination in DESTINATIONS.items():
            by_verdict[verdict] = max(below[destination], below[destination_of(verdict, shadow=True)])
        return by_verdict

    def _note_rows(self, check: str, rows: npt.NDArray[np.int64]) -> None:
        if len(rows):
            self.findings.note(check, [self.ledger.text(row) for row in rows[:EXAMPLES_MAX].tolist()], len(rows))

    def _add_source(self, source: Source, outputs: Sequence[Output]) -> None:
        offsets = np.array([each.headers.position.offset for each in outputs if each.headers.position], np.uint64)
        self._begun[source] = min(self._begun.get(source, _EVERYTHING), int(offsets.min()))
        for each, offset in zip(outputs, offsets.tolist(), strict=True):
            if each.headers.verdict is Verdict.GIVEN_BACK:
                # Given back after its source's later records.
                continue
            if each.headers.reason == _UNREADABLE:
                self._stood_for.setdefault(source, []).append(range(offset, offset + each.headers.offsets))
            if each.log in self.extent.trimmed:
                key = each.log, source
                self._least[key] = min(self._least.get(key, offset), offset)
        rows = self.ledger.rows_of(source, offsets)
        strange = rows == NONE
        for place in np.flatnonzero(strange).tolist():
            self._note_strange(source, outputs[place])
        known = np.flatnonzero(~strange)
        found, rows = [outputs[place] for place in known.tolist()], rows[known]
        if len(rows):
            self._note_differences(source, found, rows)
            self._write(found, rows)
            dropped = [place for place, each in enumerate(found) if each.headers.verdict is not Verdict.GIVEN_BACK]
            readable = [place for place in dropped if not self._is_by_other_settings(found[place])]
            name = "texts and fingerprints of outputs that other decode or fingerprint settings made"
            self.findings.unchecked[name] += len(dropped) - len(readable)
            self.texts.add([found[place] for place in readable], rows[readable])

    def _is_by_other_settings(self, output: Output) -> bool:
        return output.headers.settings not in ("", self.settings_digest)

    def _note_strange(self, source: Source, output: Output) -> None:
        position = output.headers.position
        assert position is not None
        if source.stream not in self.extent.names and source.stream in self.streams:
            self.findings.unchecked["outputs of an input that was made anew since"] += 1
        elif self._may_be_gone(position):
            self.findings.unchecked["outputs of records that have left the input"] += 1
        elif self._is_unreadable(position):
            self._came_out.setdefault(position.source, set()).add(position.offset)
            self.findings.unchecked["outputs of records that cannot be read"] += 1
        elif output.headers.reason == _UNREADABLE:
            self.findings.unchecked["outputs that stand for records that cannot be read"] += 1
        else:
            self.findings.note("foreign", [f"{output.place}: names {self.ledger.position_text(position)}"])

    def _may_be_gone(self, position: Position) -> bool:
        """Whether a position without a record now may have had one."""
        first, end = (offsets.get(position.source, 0) for offsets in (self.extent.first, self.extent.end))
        return position.offset < (end if self.extent.compacted else first)

    def _is_unreadable(self, position: Position) -> bool:
        return bool(within(self.ledger.unreadable, position.source, np.array([position.offset], np.uint64))[0])

    def _note_differences(self, source: Source, outputs: Sequence[Output], rows: npt.NDArray[np.int64]) -> None:
        readable = [place for place, each in enumerate(outputs) if each.headers.reason != _UNREADABLE]
        if len(readable) < len(outputs):
            name = "dead letters of records that could not be read, and can be now"
            self.findings.unchecked[name] += len(outputs) - len(readable)
            outputs, rows = [outputs[place] for place in readable], rows[readable]
        expected = self.ledger.digests(source, rows)
        got = np.array([digests_of(each.record, each.headers.kept) for each in outputs if each.record], expected.dtype)
        for part in DIGESTS if self.has_headers else ("value",):
            self.findings.examine(part, len(rows))
            differs = expected[part] != got[part]
            if part == "timestamp":
                one_for_zero = (expected[part] == 0) & (got[part] == 1)
                self.findings.unchecked["timestamps of 0, for which confluent-kafka writes 1"] += int(
                    one_for_zero.sum()
                )
                differs &= ~one_for_zero
            wrong = np.flatnonzero(differs)
            self.findings.note(
                part, (f"{self.ledger.text(int(rows[place]))}: at {outputs[place].place}" for place in wrong.tolist())
            )

    def _write(self, outputs: Sequence[Output], rows: npt.NDArray[np.int64]) -> None:
        state = self.ledger.state
        given_back = np.array([each.headers.verdict is Verdict.GIVEN_BACK for each in outputs], np.bool_)
        if given_back.any():
            np.add.at(state["given_back"], rows[given_back], np.uint16(1))
            outputs, rows = [outputs[place] for place in np.flatnonzero(~given_back).tolist()], rows[~given_back]
        headers = [each.headers for each in outputs]
        # A position may occur twice in a batch.
        np.add.at(state["outputs"], rows, np.uint16(1))
        state["verdict"][rows] = [NO_VERDICT if each.verdict is None else each.verdict for each in headers]
        state["recrawled"][rows] = [(each.verdict, each.reason) in _VERSIONS for each in headers]
        state["by_other_settings"][rows] = [self._is_by_other_settings(each) for each in outputs]
        state["same_text"][rows] = [each.reason in _SAME_TEXT for each in headers]
        state["distance"][rows] = [each.distance for each in headers]
        state["id"][rows] = [digest_of_text(each.id) for each in headers]
        state["original_id"][rows] = [digest_of_text(each.original_id) for each in headers]
        state["original"][rows] = self._originals(outputs, rows)

    def _originals(self, outputs: Sequence[Output], rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        originals = np.full(len(outputs), NONE)
        by_source: dict[Source, list[int]] = {}
        for place, each in enumerate(outputs):
            if each.headers.original is not None:
                by_source.setdefault(each.headers.original.source, []).append(place)
        for source, places in by_source.items():
            positions = [outputs[place].headers.original for place in places]
            offsets = np.array([each.offset for each in positions if each], np.uint64)
            originals[places] = self.ledger.rows_of(source, offsets)
            self.findings.examine("original-missing", len(places))
            for place, position in zip(places, positions, strict=True):
                if originals[place] == NONE and position is not None:
                    originals[place] = ELSEWHERE
                    self._note_lost_original(self.ledger.text(int(rows[place])), position)
        return originals

    def _note_lost_original(self, where: str, original: Position) -> None:
        source = original.source
        if source.stream not in self.extent.names and source.stream in self.streams:
            self.findings.unchecked["originals in an input that was made anew since"] += 1
        elif self._may_be_gone(original):
            self.findings.unchecked["originals that have left the input"] += 1
        elif self._is_unreadable(original):
            self.findings.unchecked["originals that cannot be read"] += 1
        else:
            named = self.ledger.position_text(original)
            self.findings.note("original-missing", [f"{where}: names {named}, which the input does not have"])
