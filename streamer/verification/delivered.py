"""Every input record came out once, unchanged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from index import Position, Source, Verdict
from streamer.records.reason import MINOR, RETURNED, SAME, Reason, label
from streamer.records.record import Destination
from streamer.records.relation import relation
from streamer.records.route import DESTINATIONS, destination_of
from streamer.transports.output_log import Extent, Output
from streamer.verification.findings import EXAMPLES_MAX, Findings
from streamer.verification.ledger import DIGESTS, ELSEWHERE, Ledger, OffsetRanges, digest_of_text, digests_of, within
from streamer.verification.position_table import NO_VERDICT, NONE, Rows, Words, chunks, places_by
from streamer.verification.texts import TextCheck

_EVERYTHING = 2**63
_MINOR = {label(Verdict.DUPLICATE, reason) for reason in (*MINOR.values(), *RETURNED.values())}
_SAME_TEXT = {label(Verdict.DUPLICATE, reason) for reason in SAME.values()}
_EQUAL_TEXT = _SAME_TEXT | {label(Verdict.DUPLICATE, Reason.SHORT_TEXT)}
_UNREADABLE = label(Verdict.DEAD_LETTER, Reason.UNREADABLE)


@dataclass
class DeliveredCheck:
    """Compares outputs with the ledger, and writes their verdicts into it.

    streams          the index's streams with their names: outputs from others are foreign
    settings_digest  see `streamer.fingerprint.scheme`
    longer_min       `index.longer_min`

    >>> from streamer.records.record import Record
    >>> from streamer.verification.ledger import LedgerWriter
    >>> source, writer = Source("stream", 0), LedgerWriter(folder)
    >>> writer.add(source, [Record(source, "pages", 7, None, b"{}", 0)])
    >>> ledger = writer.finish({"stream": "pages"}, Findings())
    >>> extent = Extent({"stream": "pages"}, {source: 7}, {source: 8}, committed={source: 8}, outputs=0, inputs=1)
    >>> DeliveredCheck(ledger, extent, {}, None, "", 0.1).finish(strict_start=True)
    >>> ledger.findings["missing"].examples
    ['pages/0/7']
    """

    ledger: Ledger
    extent: Extent
    streams: Mapping[str, str]
    texts: TextCheck
    settings_digest: str
    longer_min: float
    has_headers: bool = True
    _least: dict[tuple[str, Source], int] = field(default_factory=dict)
    """A source's least offset in a trimmed log."""
    _begun: dict[Source, int] = field(default_factory=dict)
    """A source's least offset in any output."""
    _placeholders: OffsetRanges = field(default_factory=dict)
    """Offsets that a dead letter reports as unreadable."""
    _came_out: dict[Source, set[int]] = field(default_factory=dict)
    """Offsets with an output, and without a record now."""

    @property
    def _findings(self) -> Findings:
        return self.ledger.findings

    def add(self, outputs: Sequence[Output]) -> None:
        """Check a batch of outputs."""
        self._findings.examine("contradiction", len(outputs))
        self._findings.note(
            "contradiction",
            (f"{each.place}: {each.headers.contradicts}" for each in outputs if each.headers.contradicts),
        )
        self._findings.examine("foreign", len(outputs))
        for each in outputs:
            if each.headers.verdict is not None:
                self._findings.counts[each.headers.verdict.label] += 1
            if each.headers.position is None:
                self._findings.note("foreign", [f"{each.place}: names no position of an input"])
            self._check_relation(each)
        sources = (each.headers.position and each.headers.position.source for each in outputs)
        for source, places in places_by(sources).items():
            self._add_source(source, [outputs[place] for place in places])

    def _check_relation(self, output: Output) -> None:
        headers = output.headers
        if headers.verdict is not None and headers.verdict.names_original:
            reason = Reason.SAME_TEXT if headers.reason in _EQUAL_TEXT else Reason.ORDINARY
            expected = relation(headers.verdict, reason, headers.length, headers.new, self.longer_min)
            if headers.relation != (expected or ""):
                problem = f"{output.place}: has the relation {headers.relation!r}, and by its length {expected!r}"
                self._findings.note("length", [problem])

    def finish(self, *, strict_start: bool) -> None:
        """Note records that did not come out; after the index is in the ledger.

        strict_start  whether the service was to begin at the first record; else those before the first output are excused
        """
        for source, base, offsets in self.ledger.sources():
            committed = self.extent.committed.get(source, 0)
            places = int(np.searchsorted(offsets, committed))
            self._findings.examine("missing", places)
            self._findings.counts["in flight"] += len(offsets) - places
            excused_below = 0 if strict_start else self._begun.get(source, committed)
            trimmed_below = self._trimmed_below(source)
            for part in chunks(len(offsets)):
                rows = np.arange(part.start, part.stop) + base
                counts = self.ledger.state["outputs"][rows]
                self.ledger.note("doubled", rows[counts > 1])
                silent = rows[(counts == 0) & (rows < base + places)]
                accounted = within(self._placeholders, source, offsets[silent - base])
                self._findings.leave_out(
                    "records that could not be read, with a dead letter that stands for them", accounted
                )
                silent = silent[~accounted]
                at = offsets[silent - base]
                journaled = self.ledger.state["journaled"][silent]
                before, trimmed = at < excused_below, (at >= excused_below) & (at < trimmed_below[journaled])
                self._findings.leave_out("before the first output (recovery.first_start)", before)
                self._findings.leave_out("older than what is left of the outputs", trimmed)
                self.ledger.note("missing", silent[~before & ~trimmed])
            self._findings.examine("doubled", len(offsets))
            self._check_given_back(base, offsets, trimmed_below)
        for source in self.ledger.unreadable:
            committed = self.extent.committed.get(source, 0)
            first = 0 if strict_start else self._begun.get(source, committed)
            self._look_for_unreadable(source, max(first, int(self._trimmed_below(source)[NO_VERDICT])), committed)

    def _check_given_back(self, base: int, offsets: Words, trimmed_below: Words) -> None:
        for part in chunks(len(offsets)):
            rows = np.arange(part.start, part.stop) + base
            state, at = self.ledger.state[rows], offsets[part]
            given_back = state["given_back"] > 0
            known = state["known_given_back"] > 0
            self._findings.examine("given-back", int(given_back.sum()))
            self.ledger.note("given-back", rows[state["given_back"] > 1])
            dropped = (state["outputs"] > 0) & (state["verdict"] == Verdict.DUPLICATE)
            dropped |= (state["outputs"] == 0) & (at < trimmed_below[Verdict.DUPLICATE])
            self.ledger.note("given-back", rows[given_back & ~dropped])
            self._findings.leave_out("given back, and not known to the index (any more)", given_back & ~known)
            # The index is read last: a running command may have decided them since.
            self._findings.leave_out(
                "given back, and not in the outputs (yet): if no give-back runs, run it again", known & ~given_back
            )

    def _look_for_unreadable(self, source: Source, first: int, end: int) -> None:
        for unreadable in self.ledger.unreadable[source]:
            begin = max(unreadable.start, first)
            offsets = np.arange(begin, max(begin, min(unreadable.stop, end)), dtype=np.uint64)
            self._findings.examine("missing", len(offsets))
            accounted = within(self._placeholders, source, offsets)
            accounted |= np.isin(offsets, np.fromiter(self._came_out.get(source, ()), np.uint64))
            missing = [Position(source, offset) for offset in offsets[~accounted].tolist()]
            self._findings.note(
                "missing",
                [
                    f"{self.ledger.position_text(position)}: cannot be read, and no dead letter stands for it"
                    for position in missing[:EXAMPLES_MAX]
                ],
                len(missing),
            )

    def _trimmed_below(self, source: Source) -> Words:
        """Offset by verdict, uint64 [256], below which outputs may have left their logs.

        In shadow mode, a duplicate may have been in the unique output.
        """
        below = dict.fromkeys(Destination, 0)
        for log, destination in self.extent.trimmed.items():
            below[destination] = max(below[destination], self._least.get((log, source), _EVERYTHING))
        by_verdict = np.full(NO_VERDICT + 1, max(below.values()), np.uint64)
        for verdict, destination in DESTINATIONS.items():
            by_verdict[verdict] = max(below[destination], below[destination_of(verdict, shadow=True)])
        return by_verdict

    def _add_source(self, source: Source, outputs: Sequence[Output]) -> None:
        offsets = np.array([each.headers.position.offset for each in outputs if each.headers.position], np.uint64)
        self._begun[source] = min(self._begun.get(source, _EVERYTHING), int(offsets.min()))
        for each, offset in zip(outputs, offsets.tolist(), strict=True):
            if each.headers.verdict is Verdict.GIVEN_BACK:
                # Given back after its source's later records.
                continue
            if each.headers.reason == _UNREADABLE:
                self._placeholders.setdefault(source, []).append(range(offset, offset + each.headers.offsets))
            if each.log in self.extent.trimmed:
                key = each.log, source
                self._least[key] = min(self._least.get(key, offset), offset)
        rows = self.ledger.rows_of(source, offsets)
        strange = rows == NONE
        for place in np.flatnonzero(strange).tolist():
            if (position := outputs[place].headers.position) is not None:
                self._note_strange(outputs[place], position)
        known = np.flatnonzero(~strange)
        readable_outputs, rows = [outputs[place] for place in known.tolist()], rows[known]
        if len(rows):
            self._note_differences(source, readable_outputs, rows)
            self._write(readable_outputs, rows)
            dropped = [
                place for place, each in enumerate(readable_outputs) if each.headers.verdict is not Verdict.GIVEN_BACK
            ]
            readable = [place for place in dropped if not self._is_by_other_settings(readable_outputs[place])]
            name = "texts and fingerprints of outputs that other decode or fingerprint settings made"
            self._findings.leave_out(name, len(dropped) - len(readable))
            self.texts.add([readable_outputs[place] for place in readable], rows[readable])

    def _is_by_other_settings(self, output: Output) -> bool:
        return output.headers.settings not in ("", self.settings_digest)

    def _note_strange(self, output: Output, position: Position) -> None:
        self._came_out.setdefault(position.source, set()).add(position.offset)
        if absence := self._absence(position):
            self._findings.leave_out(absence[0], 1)
        elif output.headers.reason == _UNREADABLE:
            self._findings.leave_out("outputs that stand for records that cannot be read", 1)
        else:
            self._findings.note("foreign", [f"{output.place}: names {self.ledger.position_text(position)}"])

    def _absence(self, position: Position) -> tuple[str, str] | None:
        """Why a position may lack its record, in words for its output and for an original; None: it may not."""
        source, offset = position
        if source.stream not in self.extent.names and source.stream in self.streams:
            strange = self.extent.strange_input(self.streams[source.stream])
            return f"outputs of {strange}", f"originals in {strange}"
        if offset < (self.extent.end if self.extent.compacted else self.extent.first).get(source, 0):
            return "outputs of records that have left the input", "originals that have left the input"
        if within(self.ledger.unreadable, source, np.array([offset], np.uint64))[0]:
            return "outputs of records that cannot be read", "originals that cannot be read"
        return None

    def _note_differences(self, source: Source, outputs: Sequence[Output], rows: Rows) -> None:
        readable = [place for place, each in enumerate(outputs) if each.headers.reason != _UNREADABLE]
        if len(readable) < len(outputs):
            name = "dead letters of records that could not be read, and can be now"
            self._findings.leave_out(name, len(outputs) - len(readable))
            outputs, rows = [outputs[place] for place in readable], rows[readable]
        expected = self.ledger.digests(source, rows)
        got = np.array([digests_of(each.record, each.headers.kept) for each in outputs if each.record], expected.dtype)
        for part in DIGESTS if self.has_headers else ("value",):
            self._findings.examine(part, len(rows))
            differs = expected[part] != got[part]
            if part == "timestamp":
                one_for_zero = (expected[part] == 0) & (got[part] == 1)
                self._findings.excuse("timestamps of 0, for which confluent-kafka writes 1", differs, one_for_zero)
                stamped = np.array([each.is_stamped for each in outputs], np.bool_)
                self._findings.excuse(
                    "timestamps that output topics give by themselves (LogAppendTime)", differs, stamped
                )
            wrong = np.flatnonzero(differs)
            self._findings.note(
                part, (f"{self.ledger.text(int(rows[place]))}: at {outputs[place].place}" for place in wrong.tolist())
            )

    def _write(self, outputs: Sequence[Output], rows: Rows) -> None:
        state = self.ledger.state
        given_back = np.array([each.headers.verdict is Verdict.GIVEN_BACK for each in outputs], np.bool_)
        if given_back.any():
            np.add.at(state["given_back"], rows[given_back], np.uint16(1))
            outputs, rows = [outputs[place] for place in np.flatnonzero(~given_back).tolist()], rows[~given_back]
        headers = [each.headers for each in outputs]
        # A position may occur twice in a batch.
        np.add.at(state["outputs"], rows, np.uint16(1))
        state["verdict"][rows] = [NO_VERDICT if each.verdict is None else each.verdict for each in headers]
        state["minor"][rows] = [each.reason in _MINOR for each in headers]
        state["by_other_settings"][rows] = [self._is_by_other_settings(each) for each in outputs]
        state["same_text"][rows] = [each.reason in _SAME_TEXT for each in headers]
        state["distance"][rows] = [each.distance for each in headers]
        state["length"][rows] = [np.nan if each.length is None else each.length for each in headers]
        state["new"][rows] = [np.nan if each.new is None else each.new for each in headers]
        state["id"][rows] = [digest_of_text(each.id) for each in headers]
        state["original_id"][rows] = [digest_of_text(each.original_id) for each in headers]
        state["original"][rows] = self._originals(outputs, rows)

    def _originals(self, outputs: Sequence[Output], rows: Rows) -> Rows:
        positions = [each.headers.original for each in outputs]
        originals = self.ledger.rows_at(positions)
        self._findings.examine("original-missing", sum(position is not None for position in positions))
        for place in np.flatnonzero(originals == NONE).tolist():
            if (position := positions[place]) is not None:
                originals[place] = ELSEWHERE
                if absence := self._absence(position):
                    self._findings.leave_out(absence[1], 1)
                else:
                    where, named = self.ledger.text(int(rows[place])), self.ledger.position_text(position)
                    problem = f"{where}: names {named}, which the input does not have"
                    self._findings.note("original-missing", [problem])
        return originals
