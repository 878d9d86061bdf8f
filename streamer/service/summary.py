"""Totals of a run over files."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from index import Verdict
from streamer.audit.estimates import Estimate
from streamer.explain.plain_table import PlainTable
from streamer.observe.batch_report import STEPS, BatchReport
from streamer.records.reason import Reason, label


@dataclass(slots=True)
class Totals:
    """Sums over one run's batches.

    before    records delivered by earlier runs
    folder    lines in the output folder by "verdict/reason", of all runs and inputs; None: unknown
    shadow    whether duplicates go with the unique ones (route.shadow)
    suffix    of the outputs' files
    left_out  WARC records without a page and blank lines, by kind, from each file's beginning
    remarks   sentences about what the inputs hold and no record does
    audit     `audit.report.estimates` of the whole index; empty without an audit
    unread    inputs that could not be read to their end, each with the reason; empty if there are none
    odd_times documents whose time was not understood
    without_scope documents in the empty scope, with decode.scope set
    protected documents that resemble an entry in each protected set, by its name. Empty without sets
    clusters  counts by `ClusterTable.choose`; empty if clusters are not written
    index     folder of the index that decided; None: unknown

    >>> Totals(records=500, seconds=2.0).records_per_second
    250.0
    """

    before: int = 0
    folder: Counter[str] | None = None
    records: int = 0
    replayed: int = 0
    value_bytes: int = 0
    seconds: float = 0.0
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    step_cpu_seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STEPS, 0.0))
    shadow: bool = False
    left_out: Counter[str] = field(default_factory=Counter)
    remarks: list[str] = field(default_factory=list)
    suffix: str = ".jsonl"
    odd_times: int = 0
    without_scope: int = 0
    audit: dict[str, Any] = field(default_factory=dict)
    unread: str = ""
    protected: dict[str, int] = field(default_factory=dict)
    clusters: dict[str, int] = field(default_factory=dict)
    index: Path | None = None

    def add(self, batch: BatchReport) -> None:
        """Count one delivered batch."""
        self.records += batch.records
        self.replayed += batch.replayed
        self.value_bytes += batch.value_bytes
        self.outcomes.update(batch.outcomes)
        for step, seconds in batch.step_cpu_seconds.items():
            self.step_cpu_seconds[step] += seconds

    @property
    def unreadable(self) -> int:
        """This run's dead letters that stand for damage in archives."""
        return self.outcomes[Verdict.DEAD_LETTER.label, label(Verdict.DEAD_LETTER, Reason.UNREADABLE)]

    def verdict(self, verdict: Verdict) -> int:
        """This run's records with a verdict."""
        return sum(count for (label, _), count in self.outcomes.items() if label == verdict.label)

    def in_folder(self, verdict: Verdict) -> int:
        """Records in the folder with a verdict."""
        folder = self.folder or Counter[str]()
        return sum(count for key, count in folder.items() if key.partition("/")[0] == verdict.label)

    @property
    def records_per_second(self) -> float:
        """Records per second of wall time, including the clients' start and end."""
        return self.records / self.seconds if self.seconds else 0.0

    def cpu_us_by_step(self) -> dict[str, float]:
        """This process's CPU time, in microseconds per record, by verb."""
        return {step: 1e6 * self.step_cpu_seconds[step] / self.records for step in STEPS if self.records}

    def as_json(self, out: Path) -> dict[str, Any]:
        """The totals for machines."""
        return {
            "documents": self.records,
            **{verdict.label.replace("-", "_"): self.verdict(verdict) for verdict in _SHOWN},
            "already_decided": self.before + self.replayed,
            "folder": None if self.folder is None else dict(sorted(self.folder.items())),
            "odd_times": self.odd_times,
            "without_scope": self.without_scope,
            "left_out": dict(sorted(self.left_out.items())),
            "remarks": self.remarks,
            "seconds": self.seconds,
            "documents_per_second": self.records_per_second,
            "cpu_us_by_verb": self.cpu_us_by_step(),
            "unread": self.unread.splitlines(),
            "audit": self.audit,
            "protected": self.protected,
            "clusters": self.clusters,
            "reasons": {f"{verdict}/{reason}": count for (verdict, reason), count in sorted(self.outcomes.items())},
            "out": str(out),
            "index": None if self.index is None else str(self.index),
        }


def table(totals: Totals, out: Path) -> PlainTable:
    """The totals for people; with those of the folder, if other runs wrote there too."""
    has_others = totals.folder is not None and totals.folder.total() > totals.records
    headings = ("", "this run", "folder", "") if has_others else ("", "this run", "")
    rows = PlainTable(*headings, ids=headings[:1], right=headings[1:-1], dim=headings[-1:], headed=has_others)

    def add(what: str, count: int | str, more: str, folder: int | str = "") -> None:
        rows.add_row(what, count, *([folder] if has_others else []), more)

    add("documents", totals.records, "", totals.folder.total() if totals.folder else "")
    for verdict in _SHOWN:
        if verdict in _SHOWN_IF_ANY and not totals.verdict(verdict) + totals.in_folder(verdict):
            continue
        reasons = ", ".join(
            f"{reason} {count:,}"
            for (label, reason), count in sorted(totals.outcomes.items())
            if label == verdict.label
        )
        add(_words(verdict), totals.verdict(verdict), reasons, totals.in_folder(verdict))
    if known := totals.before + totals.replayed:
        add("already decided", known, "by an earlier run: same verdicts, nothing changed")
    if totals.unread:
        add("unread files", len(totals.unread.splitlines()), "read up to a line: see below")
    if totals.left_out:
        add("no documents", totals.left_out.total(), left_out_in_words(totals.left_out))
    if totals.odd_times:
        add("odd times", totals.odd_times, "not understood (decode.time), so taken as no time")
    if totals.without_scope:
        add("without scope", totals.without_scope, "compared with each other (decode.scope)")
    for name, count in totals.protected.items():
        add("protected", count, f"resemble the set {name} (index.protected), and keep their verdicts")
    if shared := totals.outcomes[Verdict.UNIQUE.label, label(Verdict.UNIQUE, Reason.SHARED_ID)]:
        add("shared ids", shared, "ids of unrelated texts, so no versions: decode.id names no page")
    for measured in ("recall", "precision"):
        if totals.audit and totals.audit[measured]["estimate"] is not None:
            estimate = Estimate(**totals.audit[measured])
            add(measured, f"{estimate.estimate:.3f}", f"{estimate.low:.3f} to {estimate.high:.3f}; streamer audit")
    if totals.clusters:
        counts = ", ".join(f"{name} {count:,}" for name, count in totals.clusters.items() if name != "clusters")
        add("clusters", totals.clusters["clusters"], counts)
    add("documents/s", f"{totals.records_per_second:,.0f}", f"{totals.seconds:.1f} s by the clock")
    for verdict, name in _FILES.items():
        if totals.shadow and verdict is Verdict.DUPLICATE:
            continue
        words = "unique, near-duplicate" if totals.shadow and verdict is Verdict.UNIQUE else _words(verdict)
        add(f"{words} in", "", str(out / f"{name}{totals.suffix}"))
    add("every verdict in", "", str(out / f"verdicts{totals.suffix}"))
    if totals.protected:
        add("protected in", "", str(out / f"protected{totals.suffix}"))
    if totals.index is not None:
        # Without --index it lies in the working directory, and the next --out there shares it.
        add("compared with", "", f"all that the index {totals.index} holds")
    return rows


def left_out_in_words(left_out: Counter[str]) -> str:
    """Omitted records, most frequent kind first.

    >>> left_out_in_words(Counter({"request": 4, "response, image/png": 1_200}))
    'response, image/png 1,200; request 4'
    """
    return "; ".join(f"{kind} {count:,}" for kind, count in left_out.most_common())


_SHOWN: tuple[Verdict, ...] = tuple(
    each for each in Verdict if each not in (Verdict.TEMPLATE, Verdict.GIVEN_BACK, Verdict.ADDS)
)
"""TEMPLATE counts as unique, ADDS as extends; their reasons show the numbers. Only a person gives back."""

_SHOWN_IF_ANY = (Verdict.UPDATE, Verdict.SUSPECT, Verdict.EXTENDS)

_FILES = {
    Verdict.UNIQUE: "unique",
    Verdict.DUPLICATE: "duplicate",
    Verdict.DEAD_LETTER: "dead-letter",
}


def _words(verdict: Verdict) -> str:
    return {
        Verdict.UNIQUE: "unique",
        Verdict.DUPLICATE: "near-duplicate",
        Verdict.UNDECIDABLE: "undecidable",
        Verdict.UPDATE: "updates",
        Verdict.SUSPECT: "suspects, let pass",
        Verdict.EXTENDS: "longer versions",
        Verdict.DEAD_LETTER: "dead letters",
    }[verdict]
