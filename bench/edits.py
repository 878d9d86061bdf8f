"""Edits that each scheme sees through, and the part of each normalisation step in that.

    python -m bench.edits SET [SET ...] [--json]

A set is a folder with `docs.jsonl.xz` whose documents have `base` (which article), `op` ("base": the article itself, else
the edit), `level` (how much of it), `label` (dup, grey, neg) and `J` (Jaccard similarity with the article). The schemes
as shipped compare every edited document with its article, pair by pair. A document is found where an index that holds the
article alone would call it a duplicate. Then they compare with all steps of the normalisation, and with each left out:

    widths      compatibility forms such as full-width letters and digits (NFKC; without: NFC)
    case        case folding
    invisible   zero-width and other code points that are not seen
    markup      fingerprint.markup = "html"
    simplify    fingerprint.simplify

The first three are part of the normal form, which the product always applies; a slow form without them replaces it here.
"""

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from unittest import mock

import click
import numpy as np
import numpy.typing as npt
import orjson
import regex
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.conditions import PROGRESS, machine, read_lines
from streamer.evaluation.scores import pairs_flagged
from streamer.fingerprint.scheme import parameters_for, scheme_for
from streamer.settings.settings import load
from streamer.text import normalisation
from streamer.text.characters import Characters
from streamer.text.same_letters import as_same_letters, without_accents

SCHEMES = ("simhash", "minhash")
STEPS = ("widths", "case", "invisible", "markup", "simplify")
SHOWN_MIN = 0.05
"""Least change in the share found, from leaving one step out, that puts an edit into the table of the steps."""

_INVISIBLE = regex.compile(r"[\p{Cf}\p{Default_Ignorable_Code_Point}]+")
"""As in `streamer.text.characters`."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One edit at one level: rows of the set's edited documents, their label and mean similarity."""

    name: str
    level: int
    label: str
    rows: npt.NDArray[np.int64]
    similarity: float


class EditedSet:
    """Articles, their edited documents, and the edits that made them."""

    def __init__(self, folder: Path) -> None:
        documents = list(read_lines(folder / "docs.jsonl.xz"))
        articles = [each for each in documents if each["op"] == "base"]
        edited = [each for each in documents if each["op"] != "base"]
        places = {each["base"]: place for place, each in enumerate(articles)}
        self.name = folder.name
        self.articles = [each["text"] for each in articles]
        self.texts = [each["text"] for each in edited]
        self.article_of = np.array([places[each["base"]] for each in edited])
        keys = [(each["op"], each["level"], each["label"]) for each in edited]
        self.edits = []
        for name, level, label in sorted(set(keys)):
            rows = np.array([row for row, key in enumerate(keys) if key == (name, level, label)])
            similarity = float(np.mean([edited[row]["J"] for row in rows]))
            self.edits.append(Edit(name, level, label, rows, similarity))

    def found(self, scheme_name: str, steps: Sequence[str] | None) -> npt.NDArray[np.bool_]:
        """Whether each edited document is found, with these steps of the normalisation (None: as shipped); bool [edited]."""
        overrides = [f"fingerprint.scheme={scheme_name}"]
        if steps is not None:
            overrides += [f"fingerprint.markup={'html' if 'markup' in steps else 'none'}"]
            overrides += [f"fingerprint.simplify={'true' if 'simplify' in steps else 'false'}"]
        settings = load(None, overrides, {})
        with normal_form(STEPS if steps is None else steps):
            scheme = scheme_for(settings)
            articles, edited = scheme.fingerprint(self.articles), scheme.fingerprint(self.texts)
        of_pairs = articles.rows(self.article_of)
        return pairs_flagged(of_pairs, edited, parameters_for(settings, {}))


@contextmanager
def normal_form(steps: Sequence[str]) -> Iterator[None]:
    """Context in which texts get the normal form with these of its steps."""
    if {"widths", "case", "invisible"} <= set(steps):
        yield
        return
    with mock.patch.object(normalisation, "fold", partial(folded, steps=steps)):
        yield


def folded(texts: Sequence[str], steps: Sequence[str]) -> Characters:
    """`text.characters.fold` by its definition, a text at a time, with only these of its steps."""
    formed = [_formed(text, steps) for text in texts]
    codepoints = np.frombuffer("".join(formed).encode("utf-32-le", "surrogatepass"), "<u4").astype(np.uint32)
    return Characters(codepoints, np.concatenate([[0], np.cumsum([len(text) for text in formed], dtype=np.int64)]))


def _formed(text: str, steps: Sequence[str]) -> str:
    composed = "NFKC" if "widths" in steps else "NFC"
    fold: Callable[[str], str] = str.casefold if "case" in steps else str
    seen = _INVISIBLE.sub("", text) if "invisible" in steps else text
    decomposed = unicodedata.normalize(composed.replace("C", "D"), as_same_letters(seen))
    once = unicodedata.normalize(composed, as_same_letters(fold(decomposed)))
    return unicodedata.normalize(composed, without_accents(unicodedata.normalize(composed, fold(once))))


@dataclass(frozen=True, slots=True)
class Row:
    """Outcome of one edit at one level: shares found, by scheme.

    shipped     as shipped
    normalised  with all steps
    without     by scheme and step, with all steps but this one
    """

    set_name: str
    edit: str
    level: int
    label: str
    pairs: int
    similarity: float
    shipped: dict[str, float]
    normalised: dict[str, float]
    without: dict[str, dict[str, float]]

    @property
    def gained(self) -> float:
        """Largest change that leaving out one step makes."""
        return max(
            abs(self.normalised[scheme] - share) for scheme in SCHEMES for share in self.without[scheme].values()
        )


def measure(edited: EditedSet) -> list[Row]:
    """Outcomes of every edit of a set at every level."""
    variants: list[tuple[str, Sequence[str] | None]] = [("shipped", None), ("normalised", STEPS)]
    variants += [(step, [each for each in STEPS if each != step]) for step in STEPS]
    jobs = [(scheme, name, steps) for scheme in SCHEMES for name, steps in variants]
    found = {
        (scheme, name): edited.found(scheme, steps)
        for scheme, name, steps in track(jobs, description=edited.name, console=PROGRESS)
    }

    def share(scheme: str, name: str, rows: npt.NDArray[np.int64]) -> float:
        return float(found[scheme, name][rows].mean())

    return [
        Row(
            edited.name,
            edit.name,
            edit.level,
            edit.label,
            len(edit.rows),
            edit.similarity,
            {scheme: share(scheme, "shipped", edit.rows) for scheme in SCHEMES},
            {scheme: share(scheme, "normalised", edit.rows) for scheme in SCHEMES},
            {scheme: {step: share(scheme, step, edit.rows) for step in STEPS} for scheme in SCHEMES},
        )
        for edit in edited.edits
    ]


def edit_table(rows: Sequence[Row]) -> Table:
    """Table of the share found of every edit, as shipped and with all steps."""
    table = Table(title=f"{rows[0].set_name}: share found", title_justify="left")
    for column in ("edit", "level", "label", "pairs", "Jaccard"):
        table.add_column(column, justify="left" if column in ("edit", "label") else "right")
    for column in ("as shipped", "all steps"):
        for scheme in SCHEMES:
            table.add_column(f"{scheme}, {column}", justify="right")
    for row in rows:
        shares = [row.shipped[scheme] for scheme in SCHEMES] + [row.normalised[scheme] for scheme in SCHEMES]
        figures = [str(row.level), row.label, str(row.pairs), f"{row.similarity:.2f}"]
        table.add_row(row.edit, *figures, *(f"{share:.3f}" for share in shares))
    return table


def step_table(rows: Sequence[Row]) -> Table:
    """Table of the share found without each step, SimHash / MinHash, of the edits for which a step matters."""
    table = Table(title=f"{rows[0].set_name}: share found, simhash / minhash", title_justify="left")
    table.add_column("edit, level")
    for column in ("all steps", *(f"without {step}" for step in STEPS)):
        table.add_column(column, justify="right")
    for row in rows:
        if row.gained >= SHOWN_MIN:
            shares = [row.normalised, *({scheme: row.without[scheme][step] for scheme in SCHEMES} for step in STEPS)]
            cells = [" / ".join(f"{share[scheme]:.2f}" for scheme in SCHEMES) for share in shares]
            table.add_row(f"{row.edit}, {row.level}", *cells)
    return table


@click.command(help=__doc__)
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Machine-readable results instead of tables.")
def main(folders: tuple[Path, ...], as_json: bool) -> None:
    measured = [measure(EditedSet(folder)) for folder in folders]
    if as_json:
        answer = {"conditions": machine(), "results": [asdict(row) for rows in measured for row in rows]}
        click.echo(orjson.dumps(answer, option=orjson.OPT_INDENT_2))
        return
    console = Console(width=150)
    for rows in measured:
        console.print(edit_table(rows))
        console.print(step_table(rows))


if __name__ == "__main__":
    main()
