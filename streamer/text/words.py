"""Characters in the compared form -> words.

A segmenter splits Han runs (`segmentation`). In scripts with spaces, runs of letters and digits are words. Scripts without
spaces yield overlapping character shingles. `characters.Rule` has every character's role.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from streamer.text import segmentation, word_kernels
from streamer.text.characters import Characters, decode, fold, ragged, rule_table
from streamer.text.segmentation import Segmenter, segmenter

_BLANK = 0x20


@dataclass(frozen=True, slots=True)
class Words:
    """The words of n texts in reading order, as character ranges; character shingles overlap.

    codepoints  uint32 [characters], all texts
    starts      int64 [words], ascending
    lengths     int64 [words], code points
    bounds      int64 [n + 1], text i has the words bounds[i]:bounds[i + 1]

    >>> split(fold(["The harbour of 杭州"]), segmenter("compiled"), 2).strings()
    [['the', 'harbour', 'of', '杭州']]
    """

    codepoints: npt.NDArray[np.uint32]
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    bounds: npt.NDArray[np.int64]

    def strings(self) -> list[list[str]]:
        """Every text's words."""
        if not len(self.starts):
            return [[] for _ in self.bounds[1:]]
        ends = np.cumsum(self.lengths + 1)
        spaced = np.full(int(ends[-1]), _BLANK, np.uint32)
        spaced[ragged(ends - self.lengths - 1, self.lengths)] = self.codepoints[ragged(self.starts, self.lengths)]
        listed = decode(spaced[:-1]).split(" ")
        return [listed[begin:end] for begin, end in pairwise(self.bounds.tolist())]


def words(texts: Sequence[str], name: segmentation.Name, character_shingle_size: int) -> list[list[str]]:
    """Every text's words as strings, in reading order; none without letters and digits."""
    return split(fold(texts), segmenter(name), character_shingle_size).strings()


def split(characters: Characters, han: Segmenter, character_shingle_size: int) -> Words:
    """The words of a batch of texts in the compared form.

    Words hold letters, marks, digits and inner apostrophes only, and end with their text. A mark belongs to the letter
    before it. In scripts with spaces, an apostrophe between two letters, the first with its marks,
    belongs to their word. In scripts without spaces a letter and its marks count as one character, and a run shorter than
    the shingle is one word.
    """
    codepoints, bounds = characters.codepoints, characters.bounds
    runs = word_kernels.runs(codepoints, bounds, rule_table(), character_shingle_size)
    starts, lengths = han.segment(codepoints, *runs)
    return Words(codepoints, starts, lengths, np.searchsorted(starts, bounds))
