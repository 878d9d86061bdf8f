"""Made-up posts are short, every fourth repeats one before it, and the same seed makes the same ones."""

from bench.posts import REPEATED_EVERY, posts
from tests.support.jaccard import jaccard

SENTENCES = ["".join(chr(0x4E00 + (37 * number + 11 * place) % 20000) for place in range(40)) for number in range(500)]


def test_every_fourth_post_resembles_one_before_it_and_no_other_does() -> None:
    made = list(posts(SENTENCES, 200, seed=1))
    for number, post in enumerate(made):
        alike = max((jaccard(post, other, 5) for other in made[:number]), default=0.0)
        assert (alike >= 0.5) == (number % REPEATED_EVERY == REPEATED_EVERY - 1)
