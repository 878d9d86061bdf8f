"""Words asked of a table one by one."""

from streamer.fingerprint.hashing import hash_strings
from streamer.fingerprint.methods.word_tables import WordTable


def number_of(table: WordTable, word: str) -> int:
    """What the table says of this word."""
    return int(table.of(hash_strings([word], 1)[:, 0])[0])
