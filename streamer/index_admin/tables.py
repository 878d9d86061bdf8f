"""Tables for people of the values in `index_admin.tools`, and progress bars."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

BAR_CHARACTERS = 40


@contextmanager
def progress_bar(title: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Bar on standard error while the block runs. The callable takes the number done so far."""
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


def statistics_table(found: Mapping[str, Any]) -> RenderableType:
    """Table of `tools.statistics`."""
    fullness: list[RenderableType] = [_buckets(found["buckets"]), Text()] if found["buckets"]["looked_at"] else []
    return Group(_sizes(found), Text(), _parts(found), Text(), *fullness, _sources(found))


def _plain(*headings: str, right: tuple[str, ...] = ()) -> Table:
    rows = Table(box=None, pad_edge=False, show_header=any(headings), header_style="dim")
    for heading in headings:
        rows.add_column(heading, justify="right" if heading in right else "left", overflow="fold")
    return rows


def _sizes(found: Mapping[str, Any]) -> Table:
    rows = Table(box=None, pad_edge=False, show_header=False)
    rows.add_column()
    rows.add_column(justify="right")
    rows.add_column(style="dim")
    parameters = found["parameters"]
    rows.add_row("index", "", found["directory"])
    if parameters["scheme"] == "minhash":
        matched = f"matched from a similarity of {parameters['similarity_min']:g}"
    else:
        matched = f"matched within a distance of {parameters['distance_max']}"
    rows.add_row("entries", f"{found['entries']:,}", f"{parameters['scheme']}, {parameters['bits']:,} bits, {matched}")
    rows.add_row("exact entries", f"{found['exact_entries']:,}", "short texts, matched by equality")
    compaction = found["compaction"]
    rows.add_row("memtable", f"{compaction['memtable_entries']:,}", "newest entries, in no segment yet")
    if compaction["frozen_entries"] or compaction["progress"] < 1:
        moved = f"entries in compaction, {compaction['progress']:.0%} of it done"
        rows.add_row("frozen memtable", f"{compaction['frozen_entries']:,}", moved)
    if compaction["removals"]:
        rows.add_row("tombstones", f"{compaction['removals']:,}", "no longer matched, still in segments")
    rows.add_row("segments", f"{compaction['segments']:,}", "")
    if found["expired_below"]:
        rows.add_row("expired", f"{found['expired_below']:,}", "documents with lower numbers, no longer matched")
    rows.add_row("forgotten", f"{found['forgotten']:,}", "no longer matched")
    rows.add_row("journal rows", f"{found['journal_rows']:,}", "positions decided")
    share = 100 * found["used_bytes"] / found["map_bytes_max"]
    rows.add_row("bytes", f"{found['used_bytes']:,}", f"{share:.2g} % of index.map_bytes_max")
    readers = ", ".join(str(reader["process"]) for reader in found["readers"])
    rows.add_row("reading processes", f"{len(found['readers']):,}", readers)
    return rows


def _parts(found: Mapping[str, Any]) -> Table:
    rows = _plain("part", "bytes", "bytes an entry", right=("bytes", "bytes an entry"))
    for name, size in sorted(found["table_bytes"].items(), key=lambda part: -part[1]):
        each = found["bytes_per_entry"].get(name)
        rows.add_row(name, f"{size:,}", "" if each is None else f"{each:,.1f}")
    return rows


def _buckets(found: Mapping[str, Any]) -> Table:
    looked_at = f"of {found['looked_at']:,} buckets"
    rows = _plain("entries in a bucket", looked_at, "", right=("entries in a bucket", looked_at))
    most = max(level["buckets"] for level in found["histogram"])
    for level in found["histogram"]:
        span = str(level["from"]) if level["from"] == level["to"] else f"{level['from']:,} to {level['to']:,}"
        length = -(-BAR_CHARACTERS * level["buckets"] // most)
        rows.add_row(span, f"{level['buckets']:,}", "█" * length)
    rows.add_row("mean", f"{found['mean']:,.3f}", "")
    rows.add_row("largest", f"{found['largest']:,}", "")
    return rows


def _sources(found: Mapping[str, Any]) -> Table:
    further = [name for name in ("committed", "time") if any(name in source for source in found["sources"])]
    rows = _plain("input", "partition", "applied", *further, "stream", right=("partition", "applied", "committed"))
    for source in found["sources"]:
        told = [source.get(name) for name in ("applied", *further)]
        shown = ["-" if each is None else each if isinstance(each, str) else f"{each:,}" for each in told]
        rows.add_row(source["name"] or "-", str(source["partition"]), *shown, source["stream"])
    return rows


def answer_table(found: Mapping[str, Any]) -> RenderableType:
    """Table of `tools.answer`."""
    title = Text(f"{found['fingerprint'] or 'no fingerprint'} ({found['kind']})")
    if "document" in found:
        document = found["document"]
        title.append(f" of {document['id']} at {document['position']}: {document['verdict']}")
        if "original" in document:
            title.append(f" of {document['original']['id']} at {document['original']['position']}")
    measure = next((key for match in found["matches"] for key in match), "distance")
    rows = _plain(measure, "id", "position", "time", right=(measure,))
    for match in found["matches"]:
        rows.add_row(str(match[measure]), match["id"], match["position"], match["time"] or "-")
    return Group(title, rows if found["matches"] else Text("nothing like it", style="dim"))


def findings_table(found: Mapping[str, Any]) -> RenderableType:
    """Table of `tools.verdict`."""
    rows = _plain("check", "examined", "wrong", "", right=("examined", "wrong"))
    for check in found["checks"]:
        rows.add_row(check["check"], f"{check['examined']:,}", f"{check['wrong']:,}", "\n".join(check["examples"]))
    return Group(rows, Text("the index is sound" if found["sound"] else "the index is not sound"))
