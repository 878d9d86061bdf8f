"""Delivered documents' sentences in a file: what no kept document holds is known once all are decided again."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from streamer.evaluation.sentences import Sentences, SentencesLost, sentences_of
from streamer.text.normalisation import Normaliser
from streamer.verification.position_table import Flags, Rows, chunks, mapped

_SENTENCE = np.dtype([("document", "<u4"), ("hash", "<u8")])
_AT_ONCE = 2**18


class SentenceFile:
    """Sentences by their document's row.

    >>> from streamer.settings.settings import Fingerprint
    >>> file = SentenceFile(folder / "sentences", Normaliser(Fingerprint()))
    >>> file.add(["One. Two.", "Two."])
    >>> file.lost(np.arange(2), (np.array([True, False]), np.array([False, True])))
    (SentencesLost(distinct=2, lost=0, one_in=1), SentencesLost(distinct=2, lost=1, one_in=1))
    """

    def __init__(self, path: Path, normaliser: Normaliser) -> None:
        self._path, self._normaliser, self._documents = path, normaliser, 0
        path.touch()

    def add(self, texts: Sequence[str]) -> None:
        """Add the next documents' texts."""
        hashes, bounds = sentences_of(texts, self._normaliser)
        rows = np.empty(len(hashes), _SENTENCE)
        rows["document"] = np.repeat(np.arange(len(texts)) + self._documents, np.diff(bounds))
        rows["hash"] = hashes
        self._documents += len(texts)
        with self._path.open("ab") as file:
            file.write(rows.tobytes())

    def lost(self, counted: Rows, kept: tuple[Flags, Flags]) -> tuple[SentencesLost, SentencesLost]:
        """Counted rows' sentences that no kept document holds, for both choices, bool [n]."""
        is_counted, rows = np.zeros(self._documents, np.bool_), mapped(self._path, _SENTENCE)
        is_counted[counted] = True
        seen = Sentences(), Sentences()
        for part in chunks(len(rows), _AT_ONCE):
            chosen = rows[part][is_counted[rows[part]["document"]]]
            for sentences, flags in zip(seen, kept, strict=True):
                sentences.add(np.ascontiguousarray(chosen["hash"]), flags[chosen["document"]])
        return seen[0].lost(), seen[1].lost()
