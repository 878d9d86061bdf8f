"""Which words a published SimHash should leave out: false duplicates and recall by the list.

    python -m bench.stop_lists SET [SET ...] [--json]

Sets are streams, as `bench.accuracy` reads them. Each list is put in place of the particles of the preset simhash-classic,
which decides by an index with `insert = "unique"`. Lists are whole classes of words, so that no word is picked for a
document: words of jieba's dictionary by the first letter of their tag, and the English words of the list that the package
brings. Words that the dictionary counts less than FREQUENCY_MIN times are left out: it has them without a count of its own,
and their tags are often wrong.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click
import orjson
from rich.progress import track

from bench.accuracy import Stream
from bench.conditions import PROGRESS, machine
from bench.named_settings import Setting, parse
from streamer.fingerprint.methods.word_tables import PARTICLES, word_list
from streamer.text.segmentation import jieba_file

FREQUENCY_MIN = 4
ADVERB_FREQUENCY_MIN = 1_000
"""The same for adverbs, of which many are rare and carry a meaning."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a list of so many words reaches on one stream."""

    words_left_out: str
    words: int
    set_name: str
    false_duplicates: int
    recall: float


def lists() -> dict[str, list[str]]:
    """The lists by name, each but the first and the last with the words of the one before it."""
    shipped = word_list(PARTICLES, "fingerprint.stop_words", list)[0]
    steps = {
        "nothing": [],
        "Chinese particles and interjections (u, y, e)": tagged("uye"),
        "and function words of English": [word for word in shipped if word.isascii()],
        "and Chinese conjunctions and prepositions (c, p)": tagged("cp"),
        "and pronouns (r)": tagged("r"),
        "and frequent adverbs (d)": tagged("d", ADVERB_FREQUENCY_MIN),
    }
    found: dict[str, list[str]] = {}
    words: list[str] = []
    for name, more in steps.items():
        words = [*words, *more]
        found[name] = words
    return found | {"the shipped list": shipped}


def tagged(letters: str, frequency_min: int = FREQUENCY_MIN) -> list[str]:
    """Words of jieba's dictionary whose tag begins with one of these letters."""
    rows = (line.split() for line in jieba_file("dict.txt").decode("utf-8").splitlines())
    return [word for word, frequency, tag in rows if tag[0] in letters and int(frequency) >= frequency_min]


def outcomes(streams: list[Stream], classic: Setting, directory: Path) -> Iterator[Outcome]:
    """Every list on every stream."""
    for number, (name, words) in enumerate(track(lists().items(), console=PROGRESS)):
        file = directory / f"{number}.txt"
        file.write_text("\n".join(words) + "\n", encoding="utf-8")
        settings = classic.settings.replaced(fingerprint={"stop_words": str(file) if words else None})
        setting = replace(classic, settings=settings)
        for stream in streams:
            found = stream.run(setting).scores
            yield Outcome(name, len(words), stream.name, found.false_duplicates, found.recall.value)


def table(found: list[Outcome]) -> str:
    """The outcomes as a table in Markdown: recall, and in brackets the false duplicates."""
    sets = list(dict.fromkeys(each.set_name for each in found))
    lines = ["| left out | words | " + " | ".join(sets) + " | false, together |", "|---" * (len(sets) + 3) + "|"]
    for name in dict.fromkeys(each.words_left_out for each in found):
        own = [each for each in found if each.words_left_out == name]
        shown = " | ".join(f"{each.recall:.3f} ({each.false_duplicates})" for each in own)
        lines.append(f"| {name} | {own[0].words} | {shown} | {sum(each.false_duplicates for each in own)} |")
    return "\n".join(lines)


@click.command(help=__doc__)
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Machine-readable results instead of a table.")
def main(folders: tuple[Path, ...], as_json: bool) -> None:
    streams = [Stream(folder) for folder in folders]
    with tempfile.TemporaryDirectory(prefix="stop-lists-") as directory:
        found = list(outcomes(streams, parse("simhash-classic"), Path(directory)))
    if as_json:
        answer = {"conditions": machine(), "results": [asdict(each) for each in found]}
        click.echo(orjson.dumps(answer, option=orjson.OPT_INDENT_2))
    else:
        click.echo(table(found))


if __name__ == "__main__":
    main()
