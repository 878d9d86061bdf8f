"""Jaccard similarity of two texts by its definition, an oracle."""

from streamer.evaluation.join import tokens
from streamer.text.characters import normalise


def jaccard(left: str, right: str, size: int) -> float:
    """Similarity of the sets of runs of `size` tokens; 0 for two empty texts."""
    one, other = _token_runs(left, size), _token_runs(right, size)
    return len(one & other) / len(one | other) if one or other else 0.0


def _token_runs(text: str, size: int) -> set[tuple[str, ...]]:
    listed = tokens(normalise(text))
    return {tuple(listed[begin : begin + size]) for begin in range(max(1, len(listed) - size + 1))} if listed else set()
