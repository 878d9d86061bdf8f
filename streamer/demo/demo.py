"""The demo: made-up news through the real engine by both schemes, what it came to, and pairs to look at.

1. write the documents   2. filter them by each scheme, going on where an earlier run stopped   3. totals and score
4. examples   5. where the schemes differ
"""

import re
import signal
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text

from streamer.demo.changes import Piece, compare
from streamer.demo.differences import Difference, differences, shown_first
from streamer.demo.documents import EDITS, documents, truth
from streamer.errors import InputChanged, InputUnreadable
from streamer.service.file_job import filter_files
from streamer.settings.settings import Decode, Settings

EXIT_INTERRUPTED = 128 + signal.SIGINT
DIFFERENCES_SHOWN = 8

SCHEMES = {"minhash": "MinHash", "simhash": "SimHash"}
"""The schemes in the order in which they are shown, the shipped one first, and what people call them."""

_DOCUMENTS = "documents.jsonl"
_DIFFERENCES = "differences.jsonl"
_ID = re.compile(rb'"id": ?"([^"]+)"')
_VERDICTS = {
    "unique": "unique",
    "duplicate": "near-duplicate",
    "undecidable": "undecidable, without words",
    "dead-letter": "dead letters, broken lines",
}


@dataclass(frozen=True, slots=True)
class Example:
    """A near-duplicate by MinHash, the original it was found to be a copy of, and where their words differ."""

    id: str
    original: str
    similarity: float
    edit: str | None
    pieces: tuple[Piece, ...]
    changes_hidden: int


@dataclass(frozen=True, slots=True)
class Score:
    """The verdicts held against the truth in the ids.

    copies, found  per edit the copies made, and those that came out as near-duplicates of their own article's text
    wrong          pairs (id, original) that are not made from one article
    """

    copies: Counter[str]
    found: Counter[str]
    wrong: list[tuple[str, str]]


def run_demo(directory: Path, console: Console, settings: Settings) -> int:
    """Write the documents, filter them within `directory` by both schemes, and show what came of it: the exit code.

    Of the settings, the scheme, the field names and the index's folder are the demo's own.
    Raises InputChanged where the folder holds the demo of another release, and what `filter_files` raises.
    """
    documents_file = directory / _DOCUMENTS
    count = write_documents(documents_file)
    console.print(
        f"{count} documents, Chinese and English, are in {documents_file}: made-up news, edited copies of it,\n"
        "a few texts without words, and a few broken lines. Filtering them by both schemes:",
        soft_wrap=True,
        highlight=False,
    )
    decided_now = 0
    for scheme in SCHEMES:
        own = of_scheme(settings, scheme, directory)
        console.print(f"\n{_introduction(own)}\n  into {out_of(scheme, directory)}", soft_wrap=True, highlight=False)
        totals, finished = filter_files(own, [documents_file], out_of(scheme, directory), console)
        decided_now += totals.records - totals.replayed
        if not finished:
            console.print("Stopped; the same command goes on where it stopped.")
            return EXIT_INTERRUPTED
    outs = {scheme: out_of(scheme, directory) for scheme in SCHEMES}
    console.print()
    console.print(totals_table(outs))
    if decided_now == 0:
        console.print(
            "Every document was already decided by an earlier run; the verdicts are the same, nothing changes. "
            f"Remove {directory} to begin anew.",
            soft_wrap=True,
            highlight=False,
        )
    console.print()
    console.print(score_table({scheme: score(out) for scheme, out in outs.items()}))
    console.print(f"\nThree of the pairs that {SCHEMES['minhash']} found:")
    for example in examples(outs["minhash"], documents_file):
        console.print(render(example), soft_wrap=True)
    _show_differences(console, directory, outs, documents_file, settings)
    return 0


def of_scheme(settings: Settings, scheme: str, directory: Path) -> Settings:
    """The settings with which the demo filters by one scheme; its index is its own."""
    return settings.model_copy(
        update={
            "decode": Decode(),
            "fingerprint": settings.fingerprint.model_copy(update={"scheme": scheme}),
            "index": settings.index.model_copy(update={"directory": _index_of(scheme, directory)}),
        }
    )


def out_of(scheme: str, directory: Path) -> Path:
    """The folder of the outputs of one scheme."""
    return directory / ("out" if scheme == "minhash" else f"out-{scheme}")


def made_in(directory: Path) -> list[Path]:
    """The files and folders that the demo makes in its directory."""
    folders = [make(scheme, directory) for scheme in SCHEMES for make in (out_of, _index_of)]
    return [directory / _DOCUMENTS, directory / _DIFFERENCES, *folders]


def _index_of(scheme: str, directory: Path) -> Path:
    return directory / ("index" if scheme == "minhash" else f"index-{scheme}")


def write_documents(file: Path) -> int:
    """Write the documents, whole or not at all; a file that holds them already is left alone. Returns their count.

    Raises InputChanged where it holds others, InputUnreadable where it cannot be read or written.
    """
    lines = list(documents())
    content = b"\n".join([*lines, b""])
    try:
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            unfinished = file.with_suffix(".unfinished")
            unfinished.write_bytes(content)
            unfinished.replace(file)
        elif file.read_bytes() != content:
            raise InputChanged(
                f"{file} is not what this release's demo writes: remove {file.parent}, or name another --directory."
            )
    except OSError as error:
        raise InputUnreadable(f"{file}: {error.strerror}.") from error
    return len(lines)


def examples(out: Path, documents_file: Path, count: int = 3) -> list[Example]:
    """`count` near-duplicates from MinHash's verdicts in `out`: differing ones first, of other edits and languages each."""
    left = [verdict for verdict in verdicts(out) if verdict["verdict"] == "duplicate"]
    chosen: list[dict[str, Any]] = []
    while left and len(chosen) < count:
        best = min(left, key=lambda verdict: _dullness(verdict, chosen))
        left.remove(best)
        chosen.append(best)
    known = documents_of(documents_file, {verdict[end] for verdict in chosen for end in ("id", "original")})
    return [_example(verdict, known) for verdict in chosen]


def render(example: Example) -> Text:
    """The pair in two or three lines; changes are marked [-removed-]{+added+}, in colour where there is some."""
    edit = f" ({EDITS[example.edit]})" if example.edit else ""
    text = Text.assemble(
        (example.id, "bold"),
        f" is a near-duplicate of {example.original}, {example.similarity:.2f} similar{edit}\n  ",
    )
    if not any(piece.kind in {"removed", "added"} for piece in example.pieces):
        return text.append("the words are the same")
    for piece in example.pieces:
        if piece.kind == "removed":
            text.append(f"[-{piece.text}-]", style="red")
        elif piece.kind == "added":
            text.append(f"{{+{piece.text}+}}", style="green")
        else:
            text.append(piece.text, style="dim" if piece.kind == "gap" else "")
    if example.changes_hidden:
        text.append(f"\n  changes not shown: {example.changes_hidden}", style="dim")
    return text


def score(out: Path) -> Score:
    """Hold the verdicts in `out` against what the ids tell."""
    found: Counter[str] = Counter()
    copies: Counter[str] = Counter()
    wrong: list[tuple[str, str]] = []
    for verdict in verdicts(out):
        made_from = truth(verdict["id"] or "")
        if made_from and made_from.edit:
            copies[made_from.edit] += 1
        if verdict["verdict"] != "duplicate":
            continue
        original = truth(verdict["original"])
        if made_from and made_from.edit and original and original.article == made_from.article:
            found[made_from.edit] += 1
        else:
            wrong.append((verdict["id"], verdict["original"]))
    return Score(copies, found, wrong)


def totals_table(outs: Mapping[str, Path]) -> Table:
    """How many documents got which verdict by which scheme."""
    rows = _columns("what came out")
    counts = {scheme: Counter(verdict["verdict"] for verdict in verdicts(out)) for scheme, out in outs.items()}
    rows.add_row("documents", *(f"{counts[scheme].total():,}" for scheme in SCHEMES))
    for verdict, words in _VERDICTS.items():
        rows.add_row(words, *(f"{counts[scheme][verdict]:,}" for scheme in SCHEMES))
    return rows


def score_table(scores: Mapping[str, Score]) -> Table:
    """How many of the copies each scheme found, by what was done to them, and how many it took for copies wrongly."""
    rows = _columns("copies found, by what was done to them")
    for edit, meaning in EDITS.items():
        rows.add_row(meaning, *(f"{scores[scheme].found[edit]} of {scores[scheme].copies[edit]}" for scheme in SCHEMES))
    rows.add_row(
        "all copies", *(f"{scores[scheme].found.total()} of {scores[scheme].copies.total()}" for scheme in SCHEMES)
    )
    rows.add_row("taken for copies though they are none", *(f"{len(scores[scheme].wrong)}" for scheme in SCHEMES))
    return rows


def verdicts(out: Path) -> Iterator[dict[str, Any]]:
    """The lines of a folder's verdicts.jsonl."""
    with (out / "verdicts.jsonl").open("rb") as lines:
        yield from map(orjson.loads, lines)


def documents_of(documents_file: Path, ids: set[str]) -> dict[str, tuple[str, str]]:
    """Title and text of these documents, by id; lines that are none of them are not even parsed."""
    found: dict[str, tuple[str, str]] = {}
    with documents_file.open("rb") as lines:
        for line in lines:
            match = _ID.search(line)
            if match and match[1].decode() in ids:
                document = orjson.loads(line)
                found[document["id"]] = document.get("title", ""), document["text"]
    return found


def _introduction(settings: Settings) -> str:
    if settings.fingerprint.scheme == "minhash":
        return (
            "MinHash over runs of letters: a near-duplicate is estimated to be at least "
            f"{settings.minhash.similarity_min:g} similar"
        )
    apart = f"{settings.index.distance_max} of {settings.fingerprint.bits} bits"
    return f"SimHash over words: a near-duplicate differs in at most {apart}"


def _columns(title: str) -> Table:
    rows = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    rows.add_column(title, min_width=max(map(len, EDITS.values())))
    for name in SCHEMES.values():
        rows.add_column(name, justify="right", min_width=len("999 of 999"))
    return rows


def _show_differences(
    console: Console, directory: Path, outs: Mapping[str, Path], documents_file: Path, settings: Settings
) -> None:
    both = {scheme: list(verdicts(out)) for scheme, out in outs.items()}
    flagged = [verdict for found in both.values() for verdict in found if verdict["verdict"] == "duplicate"]
    known = documents_of(documents_file, {verdict[end] for verdict in flagged for end in ("id", "original")})
    found = differences(both["minhash"], both["simhash"], known, settings)
    file = directory / _DIFFERENCES
    file.write_bytes(b"".join(orjson.dumps(asdict(each)) + b"\n" for each in found))
    if not found:
        console.print("\nBoth schemes say the same of every document.")
        return
    shown = shown_first(found, DIFFERENCES_SHOWN)
    console.print(
        f"\nThe two differ on {len(found)} documents, all in {file}; {len(shown)} of them:",
        soft_wrap=True,
        highlight=False,
    )
    console.print(_difference_table(shown))


def _difference_table(found: Sequence[Difference]) -> Table:
    rows = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for title in ("document", "original", *SCHEMES.values(), "the truth"):
        rows.add_column(title, no_wrap=title != "original")
    for each in found:
        rows.add_row(each.id, each.original, *each.said(), each.truth)
    return rows


def _dullness(verdict: dict[str, Any], chosen: Sequence[dict[str, Any]]) -> tuple[bool, ...]:
    """The smaller, the more there is to see beside what is chosen already."""
    made_from = truth(verdict["id"])
    others = [truth(other["id"]) for other in chosen]
    edits = {other.edit for other in others if other}
    languages = {other.article[:2] for other in others if other}
    return (
        verdict["similarity"] == 1,
        made_from is None or made_from.edit in edits,
        made_from is None or made_from.article[:2] in languages,
        # A long text moved is hard to see in one line.
        made_from is None or made_from.edit == "moved",
        made_from is None or verdict["original"] != made_from.article,
    )


def _example(verdict: dict[str, Any], known: Mapping[str, tuple[str, str]]) -> Example:
    pieces, hidden = compare(known[verdict["original"]][1], known[verdict["id"]][1])
    made_from = truth(verdict["id"])
    edit = made_from.edit if made_from else None
    return Example(verdict["id"], verdict["original"], verdict["similarity"], edit, tuple(pieces), hidden)
