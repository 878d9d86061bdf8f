"""An idf table for the user's own documents: counted once, frozen into a file, never learnt while running."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from streamer.fingerprint.methods.word_tables import IDF_VERSION
from streamer.text.words import Words
from streamer.transports.files.replacing import replacing


class DocumentFrequencies:
    """Number of documents with each word.

    >>> from streamer.fingerprint.simhash.fingerprinter import Fingerprinter
    >>> from streamer.settings.settings import Fingerprint
    >>> counted = DocumentFrequencies(Fingerprinter(Fingerprint()).words)
    >>> counted.add(["the harbour", "the ferry"])
    >>> list(counted.lines(documents_min=2))
    ['# streamer idf 1 documents 2 unknown 0.693147', 'the 0.000000']
    """

    def __init__(self, split: Callable[[Sequence[str]], Words]) -> None:
        """`split` gives the words of texts, as `Fingerprinter.words` does."""
        self._split = split
        self._counts: Counter[str] = Counter()
        self.documents = 0

    def add(self, texts: Sequence[str]) -> None:
        """Count documents, also those without words."""
        for words in self._split(texts).strings():
            self._counts.update(set(words))
        self.documents += len(texts)

    def lines(self, documents_min: int) -> Iterable[str]:
        """Lines for the table that `word_tables.idf_table` reads: ln(|D| / |{d : t in d}|) by word t, words sorted.

        Words in fewer documents than `documents_min` are left out. They and unseen ones get ln |D|, as if in one document. Six
        decimals make every machine read the same weight.
        """
        whole = max(self.documents, 1)
        yield f"# streamer idf {IDF_VERSION} documents {self.documents} unknown {math.log(whole):.6f}"
        for word, count in sorted(self._counts.items()):
            if count >= documents_min:
                yield f"{word} {math.log(whole / count):.6f}"


def write_table(file: Path, lines: Iterable[str]) -> int:
    """Write the whole table or nothing; returns its number of words."""
    with replacing(file) as output:
        # The first line is no word.
        return sum(bool(output.write(f"{line}\n".encode())) for line in lines) - 1
