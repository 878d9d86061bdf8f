"""What a command over files says after its result, about inputs that it could not use."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from streamer.errors import InputUnreadable, NoDocuments

if TYPE_CHECKING:
    from streamer.service.summary import Totals


def complain(totals: "Totals", out: Path) -> None:
    """Warn if most lines are dead letters.

    Raises InputUnreadable for files and places in them that could not be read, and NoDocuments if there is none.
    """
    _complain_of_unread(totals, out)
    _complain_of_dead_letters(totals)


def _complain_of_unread(totals: "Totals", out: Path) -> None:
    """Raise InputUnreadable for files and places in them that could not be read."""
    complaints = totals.unread.splitlines()
    if count := totals.unreadable:
        complaints.append(
            f"{count:,} damaged places in archives have dead letters with the reason unreadable in {out}. They name record and "
            "byte. All other records of these archives are filtered."
        )
    if complaints:
        raise InputUnreadable("\n".join(complaints))


def _complain_of_dead_letters(totals: "Totals") -> None:
    """Warn if most lines are dead letters. Raises NoDocuments if all are, or if half a record is all there is."""
    from index import Verdict

    if totals.remarks and not totals.records + totals.before:
        raise NoDocuments("the input has no whole record yet, so nothing was filtered")
    dead = totals.verdict(Verdict.DEAD_LETTER)
    if 2 * dead <= totals.records:
        return
    reasons = ", ".join(
        f"{reason} {count:,}"
        for (verdict, reason), count in totals.outcomes.most_common()
        if verdict == Verdict.DEAD_LETTER.label
    )
    complaint = (
        f"{dead:,} of {totals.records:,} lines are dead letters ({reasons}); check decode.format, decode.text and the other "
        "pointers, and filter again with another --out and --index: these know the lines as decided"
    )
    if dead == totals.records:
        raise NoDocuments(complaint)
    click.echo(f"streamer: {complaint}", err=True)
