"""Published ways to weigh words: the settings of the section `fingerprint` by name. An explicit setting wins."""

from collections.abc import Mapping

RECIPES: Mapping[str, Mapping[str, object]] = {
    # SimHash as it is shipped: every setting as its own default says.
    "default": {},
    # Charikar 2002 over the words of a text, each counted as often as it occurs.
    "classic": {"features": "words", "weight": "tf"},
    # "Improved SimHash I": tf * idf * (1 + len).
    "improved-1": {"features": "words", "weight": "tf", "idf": "jieba", "topic_length": True},
    # "Improved SimHash II": tf * idf, and what the word, its sentence and the title say about it.
    "improved-2": {
        "features": "words",
        "weight": "tf",
        "idf": "jieba",
        "part_of_speech": "n=2,v=2",
        "word_length": True,
        "marker_factor": 5,
        "title_factor": 5,
    },
}
