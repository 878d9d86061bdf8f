"""Making a protected set: the job over files, with every document in the set's own index."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Console

from index import DATA_FILE, Index, Verdict
from streamer.errors import SettingsError
from streamer.explain.plain_table import PlainTable
from streamer.fingerprint.scheme import key_for, knows_key
from streamer.protected.folders import INDEX_FOLDER, secret_of, write_note
from streamer.service.file_job import filter_files
from streamer.service.index_steps import ByIndex
from streamer.service.pipeline import Work
from streamer.service.summary import Totals
from streamer.settings.settings import Settings
from streamer.transports.files.remote import Input


class Entering(ByIndex):
    """Takes both steps, and lets every document with a text enter, those that resemble an earlier one too."""

    def decide(self, work: Work) -> None:
        """Enter a batch's documents as unique ones. A position that entered before stays as it is."""
        entries = work.entries()
        unique = np.full(len(entries), Verdict.UNIQUE, np.uint8)
        self._index.restore(entries, unique, [None] * len(entries))
        # The journal answers, and the same transaction notes how far the file is read.
        decisions = self._index.admit(entries, work.batch.ends, work.batch.marks)
        work.decisions = replace(decisions, replayed=np.zeros(len(entries), np.bool_))


def settings_of_set(settings: Settings, out: Path) -> Settings:
    """Settings by which documents enter the protected set in a folder: the same method, without rules that drop or forget.

    Raises SettingsError with `decode.scope`.

    >>> settings_of_set(Settings(), Path("evaluation")).index.directory
    PosixPath('evaluation/index')
    """
    if settings.decode.scope is not None:
        raise SettingsError(
            "decode.scope: a scope's documents resemble none of another's, so a protected set would match its own scopes "
            "only: leave it out."
        )
    own = {"directory": out / INDEX_FOLDER, "base": [], "protected": [], "recrawl": "duplicate"}
    return settings.replaced(
        index=own | {"entries_max": None, "age_max_hours": None},
        # Without hosts no template is learnt, so that whole texts are compared.
        decode={"host_scope": "none"},
        topics={"stories": None, "protected": None},
        audit={"one_in": 0},
        guard={"policy": "alert"},
        route={"shadow": False},
    )


def protect_files(
    settings: Settings, files: Sequence[Input], out: Path, console: Console, *, processes: int = 1
) -> tuple[Totals, bool]:
    """Enter the documents of files into the protected set in the folder `out`, as `filter_files` filters them.

    The set has the key that the index in place has, or else other protected sets, so that both are comparable.
    """
    chosen = settings_of_set(settings, out)
    secret = _secret(settings)
    write_note(out, chosen.decode)
    return filter_files(chosen, files, out, console, processes=processes, steps=Entering, secret=secret)


def _secret(settings: Settings) -> bytes | None:
    if knows_key(settings):
        return None
    if not (settings.index.directory / DATA_FILE).is_file():
        return secret_of(settings.index)
    with Index.open(settings.index.directory, None, read_only=True) as index:
        # Raises for an index whose key the settings do not give.
        key_for(settings, index.secret)
        return index.secret


def table_of_set(totals: Totals, out: Path) -> PlainTable:
    """The totals for people."""
    rows: list[tuple[str, int | str, str]] = [
        ("documents", totals.records, "read by this run"),
        ("entries", totals.verdict(Verdict.UNIQUE), "those that resemble each other too"),
        ("undecidable", totals.verdict(Verdict.UNDECIDABLE), "too short to compare: nothing resembles them"),
        ("dead letters", totals.verdict(Verdict.DEAD_LETTER), f"in {out / f'dead-letter{totals.suffix}'}"),
    ]
    if totals.before:
        rows.append(("already there", totals.before, "by an earlier run"))
    rows.append(("use it with", "", f"streamer filter FILES --out FOLDER --protected {out}"))
    return PlainTable("", "this run", "", rows=rows, right=("this run",), headed=False)
