"""A stream of short posts, made of the sentences of a set, as long as wished.

    python -m bench.posts SET [SET ...] [--count 100000] [--seed S] > posts.jsonl
    streamer evaluate truth posts.jsonl --out POSTS
    python -m bench.peers POSTS

A set is a folder with `docs.jsonl.xz` (id, text). A post is one sentence after the other, each from a text drawn anew,
until it has some 110 letters. Every fourth post repeats an earlier one, as people repeat: with words of their own before or
behind it, with a few letters changed, without its end, or unchanged. What repeats what is left for `evaluate truth` to find
out, by Jaccard similarity.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import numpy as np
import orjson
import regex

from bench.conditions import read_lines

LETTERS = 110
REPEATED_EVERY = 4
_SENTENCE = regex.compile(r"[^。！？!?\n]{12,80}[。！？!?]?")
_BEFORE = ("转发：", "【扩散】", "RT @friend: ", "看到的：")
_BEHIND = ("。。。", " 求转发", "！！", " http://t.cn/z8AbCdE", "（来自网络）")


def posts(sentences: Sequence[str], count: int, seed: int) -> Iterator[str]:
    """So many posts of these sentences, the same ones for the same seed."""
    random = np.random.default_rng(seed)
    made: list[str] = []
    for number in range(count):
        if number % REPEATED_EVERY == REPEATED_EVERY - 1:
            made.append(_repeated(made[int(random.integers(len(made)))], random))
        else:
            made.append(_new(sentences, random))
        yield made[-1]


def _new(sentences: Sequence[str], random: np.random.Generator) -> str:
    post = ""
    while len(post) < LETTERS * 3 // 4:
        post += sentences[int(random.integers(len(sentences)))]
    return post


def _repeated(post: str, random: np.random.Generator) -> str:
    match int(random.integers(5)):
        case 0:
            return str(random.choice(_BEFORE)) + post
        case 1:
            return post + str(random.choice(_BEHIND))
        case 2:
            letters = list(post)
            for place in random.integers(len(letters), size=2):
                letters[place] = chr(random.integers(0x4E00, 0x9FA5))
            return "".join(letters)
        case 3:
            return post[: -max(1, len(post) // 12)]
        case _:
            return post


@click.command(help=__doc__)
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--count", default=100_000, show_default=True)
@click.option("--seed", default=0, show_default=True)
def main(folders: tuple[Path, ...], count: int, seed: int) -> None:
    texts = [row["text"] for folder in folders for row in read_lines(folder / "docs.jsonl.xz")]
    sentences = [found.group() for text in texts for found in _SENTENCE.finditer(text)]
    for number, post in enumerate(posts(sentences, count, seed)):
        click.echo(orjson.dumps({"id": f"post-{number:07}", "text": post}))


if __name__ == "__main__":
    main()
