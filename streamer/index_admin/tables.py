"""Tables of the values in `index_admin.tools`, and progress bars."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.filesize import decimal as decimal_size
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from streamer.explain.plain_table import PlainTable
from streamer.explain.printable import printable

BAR_CHARACTERS = 40


def decimal(count: float) -> str:
    """Bytes in words.

    >>> decimal(93_123_456_789)
    '93.1 GB'
    """
    return decimal_size(round(count), precision=1)


@contextmanager
def progress_bar(title: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Bar on standard error for a block. The callable takes the number done so far."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn(title),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task("", total=total or None)
        yield lambda completed: bar.update(task, completed=completed)


def statistics_table(values: Mapping[str, Any]) -> RenderableType:
    """Table of `tools.statistics`."""
    fullness: list[RenderableType] = [_buckets(values["buckets"]), Text()] if values["buckets"]["looked_at"] else []
    return Group(_sizes(values), Text(), _parts(values), Text(), *fullness, _sources(values))


def _sizes(values: Mapping[str, Any]) -> Table:
    rows = PlainTable("part", "count", "what", ids=("part",), right=("count",), dim=("what",), headed=False)
    parameters = values["parameters"]
    rows.add_row("index", "", values["directory"])
    if parameters["scheme"] == "minhash":
        matched = f"matched from a similarity of {parameters['similarity_min']:g}"
    else:
        matched = f"matched within a distance of {parameters['distance_max']}"
    rows.add_row("entries", values["entries"], f"{parameters['scheme']}, {parameters['bits']:,} bits, {matched}")
    rows.add_row("exact entries", values["exact_entries"], "short texts, matched by equality")
    compaction = values["compaction"]
    rows.add_row("memtable", compaction["memtable_entries"], "newest entries, in no segment yet")
    if compaction["frozen_entries"] or compaction["progress"] < 1:
        moved = f"entries in compaction, {compaction['progress']:.0%} of it done"
        rows.add_row("frozen memtable", compaction["frozen_entries"], moved)
    if compaction["removals"]:
        rows.add_row("tombstones", compaction["removals"], "no longer matched, still in segments")
    rows.add_row("segments", compaction["segments"], "")
    if values["expired_below"]:
        rows.add_row("expired", values["expired_below"], "documents with lower numbers, no longer matched")
    rows.add_row("forgotten", values["forgotten"], "no longer matched")
    rows.add_row("journal rows", values["journal_rows"], "positions decided")
    share, reach = 100 * values["used_bytes"] / values["bytes_max"], decimal(values["bytes_max"])
    free = decimal(values["disk_free_bytes"])
    rows.add_row(
        "bytes", values["used_bytes"], f"{share:.2g} % of the {reach} that it can reach; the disk has {free} free"
    )
    if values["bytes_per_million"]:
        millions = (values["bytes_max"] - values["used_bytes"]) / values["bytes_per_million"]
        told = f"a million decided documents, so far; there is room for {millions:,.3g} million more"
        rows.add_row("bytes a million", round(values["bytes_per_million"]), told)
    readers = ", ".join(str(reader["process"]) for reader in values["readers"])
    rows.add_row("reading processes", len(values["readers"]), readers)
    return rows


def _parts(values: Mapping[str, Any]) -> Table:
    sizes, per_entry = ("bytes", "bytes an entry"), values["bytes_per_entry"]
    # Pages that no part uses now: those that compaction left behind, and later writes take.
    largest = sorted(values["table_bytes"].items(), key=lambda part: -part[1])
    rows = ((name, size, f"{per_entry[name]:,.1f}" if name in per_entry else "") for name, size in largest)
    return PlainTable("part", *sizes, rows=rows, ids=("part",), right=sizes)


def _buckets(buckets: Mapping[str, Any]) -> Table:
    looked_at = f"of {buckets['looked_at']:,} buckets"
    rows = PlainTable("entries in a bucket", looked_at, "", right=("entries in a bucket", looked_at))
    most = max(level["buckets"] for level in buckets["histogram"])
    for level in buckets["histogram"]:
        span = str(level["from"]) if level["from"] == level["to"] else f"{level['from']:,} to {level['to']:,}"
        length = -(-BAR_CHARACTERS * level["buckets"] // most)
        rows.add_row(span, level["buckets"], "█" * length)
    rows.add_row("mean", f"{buckets['mean']:,.3f}", "")
    rows.add_row("largest", buckets["largest"], "")
    return rows


def _sources(values: Mapping[str, Any]) -> Table:
    further = [name for name in ("committed", "time") if any(name in source for source in values["sources"])]
    counts = ("partition", "applied", "committed")
    rows = PlainTable(
        "input", "partition", "applied", *further, "stream", ids=("input", "time", "stream"), right=counts
    )
    for source in values["sources"]:
        cells = [source.get(name) for name in ("applied", *further)]
        shown = ["-" if each is None else each for each in cells]
        rows.add_row(source["name"] or "-", str(source["partition"]), *shown, source["stream"])
    return rows


def answer_table(answer: Mapping[str, Any]) -> RenderableType:
    """Table of `tools.answer`."""
    title = Text(f"{answer['fingerprint'] or 'no fingerprint'} ({answer['kind']})")
    if "document" in answer:
        document = answer["document"]
        title.append(f" of {document['id']} at {document['position']}: {document['verdict']}")
        if "original" in document:
            title.append(f" of {document['original']['id']} at {document['original']['position']}")
    measure = next((key for match in answer["matches"] for key in match), "distance")
    names = ("id", "position", "time")
    rows = [(str(each[measure]), each["id"], each["position"], each["time"] or "-") for each in answer["matches"]]
    matches = PlainTable(measure, *names, rows=rows, ids=names, right=(measure,))
    return Group(title, matches if rows else Text("nothing like it", style="dim"))


def findings_table(verdict: Mapping[str, Any]) -> RenderableType:
    """Table of `tools.verdict`."""
    names = ("check", "examined", "wrong")
    rows = ((*map(each.get, names), Text("\n".join(map(printable, each["examples"])))) for each in verdict["checks"])
    checks = PlainTable(*names, "", rows=rows, ids=names[:1], right=names[1:])
    return Group(checks, Text("the index is sound" if verdict["sound"] else "the index is not sound"))
