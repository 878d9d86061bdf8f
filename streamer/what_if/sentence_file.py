"""Delivered documents' sentences in a file: what no kept document holds is known once all are decided again."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from streamer.delivered.table import Flags
from streamer.evaluation.sentences import Sentences, SentencesLost, sentences_of
from streamer.text.normalisation import Normaliser

_SENTENCE = np.dtype([("document", "<u4"), ("hash", "<u8")])
_AT_ONCE = 2**18


class SentenceFile:
    """Sentences by their document's row.

    >>> from streamer.settings.settings import Fingerprint
    >>> file = SentenceFile(folder / "sentences", Normaliser(Fingerprint()))
    >>> file.add(["One. Two.", "Two."])
    >>> file.lost((np.array([True, True]), np.array([True, False]), np.array([False, True])))
    (SentencesLost(distinct=2, lost=0, one_in=1), SentencesLost(distinct=2, lost=1, one_in=1))
    """

    def __init__(self, path: Path, normaliser: Normaliser) -> None:
        self._path, self._normaliser, self.documents = path, normaliser, 0
        path.touch()

    def add(self, texts: Sequence[str]) -> None:
        """Add the next documents' texts."""
        hashes, bounds = sentences_of(texts, self._normaliser)
        rows = np.empty(len(hashes), _SENTENCE)
        rows["document"] = np.repeat(np.arange(len(texts)) + self.documents, np.diff(bounds))
        rows["hash"] = hashes
        self.documents += len(texts)
        with self._path.open("ab") as file:
            file.write(rows.tobytes())

    def lost(self, flags: tuple[Flags, Flags, Flags]) -> tuple[SentencesLost, SentencesLost]:
        """Sentences that no kept document holds, for two choices.

        flags  bool [documents] thrice: which documents are counted, and which are kept by each choice
        """
        counted, *kept = flags
        seen = Sentences(), Sentences()
        with self._path.open("rb") as file:
            while octets := file.read(_AT_ONCE * _SENTENCE.itemsize):
                rows = np.frombuffer(octets, _SENTENCE)
                chosen = rows[counted[rows["document"]]]
                for sentences, each in zip(seen, kept, strict=True):
                    sentences.add(np.ascontiguousarray(chosen["hash"]), each[chosen["document"]])
        return seen[0].lost(), seen[1].lost()
