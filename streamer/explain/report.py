"""Answers for people: tables and texts for a terminal."""

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.rule import Rule as Line
from rich.table import Table
from rich.text import Text

from index import EntryState
from streamer.explain.explanation import Answer, Explanation, Likeness, Link, Near, Rule, Side, Texts
from streamer.explain.plain_table import PlainTable
from streamer.explain.positions import line_text, time_text
from streamer.explain.printable import printable

WIDE_COLUMNS = 100
"""Terminal width for two texts side by side."""

_COLOURS = {"unique": "green", "duplicate": "red", "suspect": "yellow", "undecidable": "yellow", "dead-letter": "red"}
_RELATIONS = {
    "original": "the {}",
    "member": "another duplicate of the {}",
    "copy": "a duplicate of this one",
    "other": "",
}
_STANDINGS = {
    EntryState.COUNTS: "still counts",
    EntryState.EXPIRED: "has expired",
    EntryState.FORGOTTEN: "counts no more",
}


class Report:
    """Renders answers for one console.

    over_files  whether positions are name:line
    meanings    whether each setting is explained

    >>> import sys
    >>> report = Report(Console(file=sys.stdout, width=80, color_system=None))
    >>> report.print(Answer("a", [], left_out=3))
    <BLANKLINE>
    3 older decisions on this id are left out (--all shows them)
    """

    def __init__(self, console: Console, *, over_files: bool = False, meanings: bool = False) -> None:
        self._console, self._over_files, self._meanings = console, over_files, meanings
        self._marks = console.no_color or console.color_system is None

    def print(self, answer: Answer) -> None:
        """Print an answer with explanations."""
        for number, explanation in enumerate(answer.explanations):
            if number:
                self._console.print(Line(style="dim"))
            self._console.print(self._explanation(explanation), highlight=False)
        if answer.left_out:
            self._console.print(f"\n{answer.left_out:,} older decisions on this id are left out (--all shows them)")

    def _explanation(self, explanation: Explanation) -> RenderableType:
        time = time_text(explanation.time_ms)
        head = Text.assemble(
            (printable(explanation.id), "bold"),
            f"  {self._place(explanation.where)}{f'  {time}' if time else ''}\n",
            (explanation.verdict, f"bold {_COLOURS.get(explanation.verdict, 'cyan')}"),
            f" ({explanation.reason})",
        )
        cause = Text(" ".join(part for part in (explanation.sentence, explanation.measure) if part))
        parts: list[RenderableType] = [head, cause, self._facts(explanation)]
        if explanation.texts is not None:
            parts += [Text(), self._texts(explanation.texts)]
        for each in explanation.protected or ():
            parts += [] if each.texts is None else [Text(), self._texts(each.texts)]
        return Group(*parts)

    def _facts(self, explanation: Explanation) -> Table:
        facts = PlainTable("name", "value", ids=("name",), dim=("name",), headed=False)
        for number, link in enumerate(explanation.chain):
            facts.add_row(f"its {link.role}" if number else link.role, self._link(link))
        if (story := explanation.story) is not None:
            facts.add_row(
                "story", f"{story['documents']:,} documents from {story['hosts']:,} hosts, kept as {story['id']}"
            )
        if explanation.standing is not None:
            facts.add_row("in the index", _STANDINGS[explanation.standing])
        settings = [self._rule(rule) for rule in explanation.rules]
        for number, setting in enumerate(settings if self._meanings or not settings else [Text(", ").join(settings)]):
            facts.add_row("" if number else "settings", setting)
        for number, near in enumerate(explanation.near or ()):
            role = explanation.original.role if explanation.original else "original"
            facts.add_row("" if number else "near now", self._near(near, role))
        if explanation.near is None:
            facts.add_row(
                "near now", Text("not known: the index keeps no fingerprint of it, and its text was not read", "dim")
            )
        elif not explanation.near and explanation.fingerprint:
            facts.add_row("near now", Text("nothing", "dim"))
        for number, each in enumerate(explanation.protected or ()):
            resembled = Text.assemble((printable(each.id), "bold"), f"  of the set {each.set_}, ")
            facts.add_row("" if number else "protected", resembled.append(_alike(each.likeness)))
        for number, note in enumerate(explanation.notes):
            facts.add_row("" if number else "note", Text(printable(note)))
        return facts

    def _rule(self, rule: Rule) -> Text:
        text = Text.assemble((f"{rule.setting} = {printable(rule.value)}", "bold"))
        if rule.from_ == "settings":
            text.append(" (the settings in force)", "dim")
        return text.append(f"  {rule.meaning}", "dim") if self._meanings else text

    def _link(self, link: Link) -> Text:
        text = Text.assemble((printable(link.id), "bold"), f"  {self._place(link.where)}")
        if link.verdict is not None:
            text.append(f"  {link.verdict} ({link.reason})")
            if link.likeness is not None:
                text.append(f", {_alike(link.likeness)} to its own")
        if link.note:
            text.append(f"  it {link.note}" if link.standing else f"  {link.note}", "yellow")
        elif link.standing is not None:
            text.append(f", {_STANDINGS[link.standing]}")
        return text

    def _near(self, near: Near, role: str) -> Text:
        said = [_RELATIONS[near.relation].format(role), "came later" if near.later else "", near.why_not]
        text = Text.assemble(f"{_alike(near.likeness)}  ", (printable(near.id), "bold"), f"  {self._place(near.where)}")
        return text.append("".join(f"  {each}" for each in said if each), "dim")

    def _place(self, where: str) -> str:
        return printable(line_text(where) if self._over_files else where)

    def _texts(self, texts: Texts) -> RenderableType:
        if texts.other is None:
            return self._side("text", texts.own, "")
        sides = [self._side(texts.other.role, texts.other, "removed"), self._side(texts.own.role, texts.own, "added")]
        parts: list[RenderableType] = []
        if texts.changes is not None:
            places = "1 place" if texts.changes == 1 else f"{texts.changes:,} places"
            differ = f"the words differ in {places}" if texts.changes else "the words are the same"
            parts.append(
                Text(f"{differ}{f', {texts.hidden:,} of them not shown (--full)' if texts.hidden else ''}", "dim")
            )
        if self._console.width >= WIDE_COLUMNS:
            both = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False, expand=True)
            both.add_column(ratio=1, overflow="fold")
            both.add_column(ratio=1, overflow="fold")
            both.add_row(*sides)
            return Group(*parts, both)
        return Group(*parts, sides[0], Text(), sides[1])

    def _side(self, heading: str, side: Side, change: str) -> Text:
        text = Text.assemble((heading, "bold underline"), f"  {printable(side.id)}\n")
        if side.missing:
            return text.append(f"cannot be shown: {printable(side.missing)}", "yellow")
        if side.title:
            text.append(f"{side.title}\n", "bold")
        for span in side.spans:
            text.append(*self._shown(span.kind, span.text, change))
        return text if side.spans else text.append("(empty)", "dim")

    def _shown(self, kind: str, text: str, change: str) -> tuple[str, str]:
        if kind != "differing" or not change:
            return text, "dim" if kind == "gap" else ""
        if not self._marks:
            return text, "bold red" if change == "removed" else "bold green"
        return marked(text, change), ""


def marked(text: str, change: str) -> str:
    """A change between marks, as in `git diff --word-diff`.

    >>> marked("old ", "removed"), marked("new ", "added")
    ('[-old-] ', '{+new+} ')
    """
    words = text.rstrip()
    begin, end = ("[-", "-]") if change == "removed" else ("{+", "+}")
    return f"{begin}{words}{end}{text[len(words) :]}"


def _alike(likeness: Likeness) -> str:
    return ", ".join(_measures(likeness))


def _measures(likeness: Likeness) -> Iterator[str]:
    if likeness.similarity is not None:
        yield f"{likeness.similarity:.4f} similar"
    if likeness.distance is not None:
        yield "1 bit apart" if likeness.distance == 1 else f"{likeness.distance} bits apart"
    if likeness.cosine is not None:
        yield f"cosine {likeness.cosine:.2f}"
