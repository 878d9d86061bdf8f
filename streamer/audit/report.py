"""The audit's report: for people as tables, for machines as values."""

import math
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import structlog
from rich.console import Group, RenderableType
from rich.text import Text

from streamer.audit import estimates
from streamer.audit.store import AuditStore, Counting, Judged
from streamer.explain.plain_table import PlainTable
from streamer.observe import definitions
from streamer.observe.definitions import Definition
from streamer.settings.settings import Settings

log = structlog.get_logger(__name__)

WINDOWS_SECONDS = {"hour": 3_600.0, "day": 86_400.0}


def limits_of(settings: Settings) -> estimates.Limits:
    """Limits in force. SimHash has none of similarity, so its verdicts are measured by minhash.similarity_min too."""
    similarity_min, by_roots = settings.minhash.similarity_min, settings.index.insert == "root"
    root = settings.index.root_similarity_min if by_roots else similarity_min
    return estimates.Limits(similarity_min, root)


def store_of(settings: Settings, counting: Counting | None = None) -> AuditStore:
    """The sample next to the index; who adds to it says which documents still count."""
    return AuditStore(settings.index.directory, settings.audit.bytes_max, counting)


def report(settings: Settings, since_seconds: float | None = None) -> dict[str, Any]:
    """Estimates over the last hour, the last day and all the sample; or since a time only."""
    limits, now_seconds = limits_of(settings), time.time()
    judged = _readable(settings, since_seconds or 0.0)
    windows = {"all": judged}
    rates = [each.one_in for each in judged] or [settings.audit.one_in]
    if since_seconds is None:
        for name, age in WINDOWS_SECONDS.items():
            windows[name] = [each for each in judged if each.seconds >= now_seconds - age]
    return {
        "one_in": rates[-1],
        "one_in_before": sorted({*rates} - {rates[-1]}),
        "sampled": len(judged),
        "similarity_min": limits.similarity_min,
        **{name: estimated(chosen, limits) for name, chosen in windows.items()},
        "by_similarity": by_similarity(judged),
        "thresholds": [
            asdict(estimates.at_threshold(judged, similarity_min, limits)) for similarity_min in estimates.THRESHOLDS
        ],
        "wrong": [
            {
                "was": what,
                **{name: getattr(each, name) for name in ("position", "id", "kept_position", "kept", "original")},
            }
            for what, each in estimates.wrong(judged, limits)
        ],
    }


def estimates_of(settings: Settings) -> dict[str, Any]:
    """Recall, precision and lost text of the whole sample."""
    return estimated(_readable(settings), limits_of(settings))


def _readable(settings: Settings, since_seconds: float = 0.0) -> list[Judged]:
    """The sample; nothing of a damaged one, which the next document replaces.

    Documents from earlier builds have no rate, so they get the one in force.
    """
    try:
        judged = store_of(settings).judged(since_seconds)
        return [each if each.one_in else each._replace(one_in=settings.audit.one_in) for each in judged]
    except OSError as error:
        log.warning("the audit cannot be read", reason=str(error))
        return []


def gauges(settings: Settings) -> dict[tuple[Definition, tuple[str, ...]], float]:
    """Values of the audit's metrics, by metric and labels."""
    limits, now_seconds = limits_of(settings), time.time()
    judged = _readable(settings, now_seconds - max(WINDOWS_SECONDS.values()))
    values: dict[tuple[Definition, tuple[str, ...]], float] = {(definitions.AUDIT_SAMPLED, ()): len(judged)}
    for name, age in WINDOWS_SECONDS.items():
        window = [each for each in judged if each.seconds >= now_seconds - age]
        for definition, measured in (
            (definitions.AUDIT_RECALL, estimates.recall(window, limits.similarity_min)),
            (definitions.AUDIT_PRECISION, estimates.precision(window, limits)),
        ):
            for bound in ("estimate", "low", "high"):
                value = getattr(measured, bound)
                values[definition, (name, bound)] = math.nan if value is None else value
    values[definitions.AUDIT_KEPT_HOSTS, ()] = estimates.kept_hosts_max(judged, limits.similarity_min)
    return values


def estimated(judged: Sequence[Judged], limits: estimates.Limits) -> dict[str, Any]:
    """Recall, precision and lost text of one window."""
    return {
        "recall": asdict(estimates.recall(judged, limits.similarity_min)),
        "precision": asdict(estimates.precision(judged, limits)),
        "lost": estimates.lost(judged),
    }


def by_similarity(judged: Sequence[Judged]) -> list[dict[str, Any]]:
    """Share dropped or named in each band of similarity to what was kept."""
    bands = [(low, round(low + 0.1, 1)) for low in (0.5, 0.6, 0.7, 0.8, 0.9)]
    return [
        {
            "from": low,
            "to": high,
            **asdict(
                estimates.recall([each for each in judged if low <= each.kept < high or each.kept == high == 1], low)
            ),
        }
        for low, high in bands
    ]


def waiting(values: dict[str, Any]) -> str:
    """What is missing until the first figure, in a line."""
    seen = max(values["all"][what]["seen"] for what in ("recall", "precision"))
    sampled = f"{values['sampled']:,} sampled documents, one in {values['one_in']:,}"
    if seen >= estimates.SEEN_MIN:
        few = f"they are of fewer than {estimates.GROUPS_MIN} texts, so one text could decide the figure"
        return f"No figure yet: {seen} pairs were seen among {sampled}, but {few}."
    line = f"No figure yet: {seen} of {estimates.SEEN_MIN} pairs were seen among {sampled}."
    if not seen:
        return line
    more = values["sampled"] * values["one_in"] * (estimates.SEEN_MIN - seen) / seen
    return f"{line} At this pace the first one needs some {float(f'{more:.2g}'):,.0f} more documents."


def tables(values: dict[str, Any]) -> RenderableType:
    """The report for people: a line while there is no figure."""
    if all(values["all"][what]["estimate"] is None for what in ("recall", "precision")):
        return Text(waiting(values))
    head = PlainTable("measured", "over", "share (95 % interval)", "pairs", right=("pairs",))
    for name in ("hour", "day", "all"):
        for what in ("recall", "precision") if name in values else ():
            estimate = estimates.Estimate(**values[name][what])
            head.add_row(what, name, estimate.in_words(), estimate.seen)
    other = PlainTable("similarity_min", "dropped", "recall", "precision")
    for each in values["thresholds"]:
        shares = (estimates.Estimate(**each[name]).in_words() for name in ("dropped", "recall", "precision"))
        mark = " in force" if each["similarity_min"] == values["similarity_min"] else ""
        other.add_row(f"{each['similarity_min']:.2f}{mark}", *shares)
    doubtful = PlainTable(
        "was", "document", "similarity", "nearest that was kept", ids=("document", "nearest that was kept")
    )
    for each in values["wrong"]:
        # A drop is doubtful for its likeness to its original, another verdict for that to what was kept.
        similarity = each["kept"] if each["original"] is None else each["original"]
        doubtful.add_row(each["was"], each["position"], f"{similarity:.3f}", each["kept_position"])
    rates = [f"one in {values['one_in']:,}", *(f"before that in {each:,}" for each in values["one_in_before"])]
    parts: list[RenderableType] = [f"{values['sampled']:,} documents, {', '.join(rates)}", "", head, "", other]
    if values["wrong"]:
        parts += ["", doubtful]
    return Group(*parts)
