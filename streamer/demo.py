"""The demo: made-up news through the real engine, what it came to, and a few pairs to look at.

1. write the documents   2. filter them, going on where an earlier run stopped   3. totals   4. score   5. examples
"""

import re
import signal
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text

from streamer.backfill import filter_files
from streamer.config import Decode, Fingerprint, Settings
from streamer.demo_documents import EDITS, documents, truth
from streamer.errors import InputChanged, InputUnreadable
from streamer.features import words
from streamer.summary import table
from streamer.text import normalise

EXIT_INTERRUPTED = 128 + signal.SIGINT
CONTEXT_WORDS = 5
"""Words shown on either side of a change."""
RUN_WORDS_MAX = 12
"""A longer change is shown by its ends."""
CHANGES_MAX = 3
"""More changes are counted, not shown."""

_BEHIND_WORD = re.compile(r"\W*\Z")
_BEHIND_SENTENCE = re.compile(r"\s*\Z")
_OPENING = {"Ps", "Pi"}
_ID = re.compile(rb'"id": ?"([^"]+)"')


@dataclass(frozen=True, slots=True)
class Piece:
    """Neighbouring words of one kind in a comparison: `same`, `removed`, `added`, or `gap` for words left out."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Example:
    """A near-duplicate, the original it was found to be a copy of, and where their words differ."""

    id: str
    original: str
    distance: int
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
    """Write the documents, filter them within `directory`, and show what came of it. Returns the exit code.

    Of the settings, the field names and the index's folder are the demo's own.
    Raises InputChanged where the folder holds the demo of another release, and what `filter_files` raises.
    """
    documents_file, out = directory / "documents.jsonl", directory / "out"
    count = write_documents(documents_file)
    console.print(
        f"{count} documents, Chinese and English, are in {documents_file}: made-up news, edited copies of it,\n"
        "a few texts without words, and a few broken lines. Filtering them:",
        soft_wrap=True,
        highlight=False,
    )
    index = settings.index.model_copy(update={"directory": directory / "index"})
    own = settings.model_copy(update={"index": index, "decode": Decode()})
    totals, finished = filter_files(own, [documents_file], out, console)
    if not finished:
        console.print("Stopped; the same command goes on where it stopped.")
        return EXIT_INTERRUPTED
    console.print()
    if totals.records:
        console.print(table(totals, out), soft_wrap=True)
    if totals.records == totals.replayed:
        counts = Counter(verdict["verdict"] for verdict in _verdicts(out))
        console.print(
            "Every document was already decided by an earlier run; the verdicts are the same, nothing changes:\n"
            f"{', '.join(f'{count} {verdict}' for verdict, count in counts.most_common())}. "
            f"Remove {directory} to begin anew.",
            soft_wrap=True,
            highlight=False,
        )
    _show(console, out, documents_file)
    return 0


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
    """`count` near-duplicates from the verdicts in `out`: differing ones first, of other edits and languages each."""
    left = [verdict for verdict in _verdicts(out) if verdict["verdict"] == "duplicate"]
    chosen: list[dict[str, Any]] = []
    while left and len(chosen) < count:
        best = min(left, key=lambda verdict: _dullness(verdict, chosen))
        left.remove(best)
        chosen.append(best)
    texts = _texts(documents_file, {verdict[end] for verdict in chosen for end in ("id", "original")})
    return [_example(verdict, texts) for verdict in chosen]


def render(example: Example) -> Text:
    """The pair in two or three lines; changes are marked [-removed-]{+added+}, in colour where there is some."""
    edit = f" ({EDITS[example.edit]})" if example.edit else ""
    apart = "1 bit" if example.distance == 1 else f"{example.distance} bits"
    text = Text.assemble(
        (example.id, "bold"),
        f" is a near-duplicate of {example.original}, {apart} apart{edit}\n  ",
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
    for verdict in _verdicts(out):
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


def _show(console: Console, out: Path, documents_file: Path) -> None:
    reached = score(out)
    rows = Table(box=None, pad_edge=False, show_header=False)
    for edit, meaning in EDITS.items():
        rows.add_row(meaning, f"{reached.found[edit]} of {reached.copies[edit]} found")
    console.print(
        f"\n{reached.found.total()} of {reached.copies.total()} copies were found; "
        f"taken for copies though they are none: {len(reached.wrong)}.",
        highlight=False,
    )
    console.print(rows)
    console.print("\nThree of the pairs:")
    for example in examples(out, documents_file):
        console.print(render(example), soft_wrap=True)


def _verdicts(out: Path) -> Iterator[dict[str, Any]]:
    with (out / "verdicts.jsonl").open("rb") as lines:
        yield from map(orjson.loads, lines)


def _dullness(verdict: dict[str, Any], chosen: Sequence[dict[str, Any]]) -> tuple[bool, ...]:
    """The smaller, the more there is to see beside what is chosen already."""
    made_from = truth(verdict["id"])
    others = [truth(other["id"]) for other in chosen]
    edits = {other.edit for other in others if other}
    languages = {other.article[:2] for other in others if other}
    return (
        verdict["distance"] == 0,
        made_from is None or made_from.edit in edits,
        made_from is None or made_from.article[:2] in languages,
        # A long text moved is hard to see in one line.
        made_from is None or made_from.edit == "moved",
        made_from is None or verdict["original"] != made_from.article,
    )


def _texts(documents_file: Path, ids: set[str]) -> dict[str, str]:
    """The texts of these documents; lines that are none of them are not even parsed."""
    found: dict[str, str] = {}
    with documents_file.open("rb") as lines:
        for line in lines:
            match = _ID.search(line)
            if match and match[1].decode() in ids:
                document = orjson.loads(line)
                found[document["id"]] = document["text"]
    return found


def _example(verdict: dict[str, Any], texts: dict[str, str]) -> Example:
    pieces, hidden = _compare(texts[verdict["original"]], texts[verdict["id"]])
    made_from = truth(verdict["id"])
    edit = made_from.edit if made_from else None
    return Example(verdict["id"], verdict["original"], verdict["distance"], edit, tuple(pieces), hidden)


def _compare(before: str, after: str) -> tuple[list[Piece], int]:
    """Where the words of two texts differ, each change with its neighbourhood; and how many changes are not shown."""
    names = Fingerprint()
    old_words, new_words = words([before, after], names.segmenter, names.character_shingle_size)
    old, new = _as_written(before, old_words), _as_written(after, new_words)
    steps = SequenceMatcher(None, old_words, new_words, autojunk=False).get_opcodes()
    shown = [step for step in steps if step[0] != "equal"][:CHANGES_MAX]
    hidden = sum(step[0] != "equal" for step in steps) - len(shown)
    if not shown:
        return [], 0
    steps = steps[: steps.index(shown[-1]) + 2]
    pieces: list[Piece] = []
    for number, (kind, old_begin, old_end, new_begin, new_end) in enumerate(steps):
        if kind == "equal":
            written = new[new_begin:new_end]
            if old[old_end - 1].endswith(" ") and not written[-1].endswith(" "):
                # The new text ends here, what was removed goes on.
                written[-1] += " "
            pieces += _neighbourhood(written, first=number == 0, last=number == len(steps) - 1)
            continue
        pieces += _change(_shortened(old[old_begin:old_end]), _shortened(new[new_begin:new_end]))
    return pieces, hidden


def _change(removed: str, added: str) -> list[Piece]:
    """Where words replace others, what stands behind them (a comma, a blank) is no part of the change."""
    pattern = _BEHIND_WORD if removed and added else _BEHIND_SENTENCE
    behind = pattern.search(added or removed)
    assert behind
    pieces = [Piece("removed", pattern.sub("", removed)), Piece("added", pattern.sub("", added))]
    return [*(piece for piece in pieces if piece.text), Piece("same", behind[0])]


def _neighbourhood(written: Sequence[str], *, first: bool, last: bool) -> list[Piece]:
    """The words next to the changes, those farther off left out."""
    behind = 0 if first else CONTEXT_WORDS
    ahead = 0 if last else CONTEXT_WORDS
    if len(written) <= behind + ahead:
        return [Piece("same", "".join(written))]
    pieces = [Piece("same", "".join(written[:behind])), Piece("gap", "…")]
    return [*pieces, Piece("same", "".join(written[len(written) - ahead :]))]


def _shortened(written: Sequence[str]) -> str:
    if len(written) <= RUN_WORDS_MAX:
        return "".join(written)
    half = RUN_WORDS_MAX // 2
    begin, end = "".join(written[:half]).rstrip(), "".join(written[-half:])
    return f"{begin} … {len(written) - RUN_WORDS_MAX} more … {end}"


def _as_written(text: str, found: Sequence[str]) -> list[str]:
    """The words with what stands behind them, so that all together are the text.

    Opening brackets and quotes stand before a word. Letters keep their case unless normalising changed the length.
    """
    normal = normalise(text)
    shown = " ".join(text.split())
    if len(shown) != len(normal):
        shown = normal
    places: list[int] = []
    at = 0
    for word in found:
        behind, at = at, max(normal.find(word, at), at)
        begin = at
        while begin > behind and unicodedata.category(shown[begin - 1]) in _OPENING:
            begin -= 1
        places.append(begin)
        at += len(word)
    return [shown[begin:end] for begin, end in pairwise([0, *places[1:], len(shown)])] if places else []
