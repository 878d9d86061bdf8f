"""A set several times over, each time with other letters: many long documents with the lengths and copies of real ones.

    python -m bench.other_letters SET [SET ...] [--times 8] > documents.jsonl

A set is a folder with `docs.jsonl.xz` (id, text). The first time keeps all letters. Each later time moves Chinese and Latin
letters on by a step of its own, so no document resembles one of another time, and each has the near-duplicates of the set.
"""

from pathlib import Path

import click
import orjson

from bench.conditions import read_lines

CHINESE_FIRST, CHINESE_COUNT, CHINESE_STEP = 0x4E00, 20_900, 997
LATIN_FIRST, LATIN_COUNT = ord("a"), 26


def letters(time: int) -> dict[int, int]:
    """What `str.translate` puts in each letter's place; nothing changes at time 0."""
    chinese = {
        CHINESE_FIRST + place: CHINESE_FIRST + (place + CHINESE_STEP * time) % CHINESE_COUNT
        for place in range(CHINESE_COUNT)
    }
    return chinese | {LATIN_FIRST + place: LATIN_FIRST + (place + time) % LATIN_COUNT for place in range(LATIN_COUNT)}


@click.command(help=__doc__)
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--times", default=8, show_default=True, type=click.IntRange(1))
def main(folders: tuple[Path, ...], times: int) -> None:
    for time in range(times):
        table = letters(time)
        for folder in folders:
            for row in read_lines(folder / "docs.jsonl.xz"):
                click.echo(orjson.dumps(row | {"id": f"{row['id']}-{time}", "text": row["text"].translate(table)}))


if __name__ == "__main__":
    main()
