"""A line against the public hash of shingles, built letter by letter, as an attacker would."""

import random
from functools import cache

import numpy as np

from deploy.made_up_site import Language
from streamer.fingerprint.minhash.shingles import shingle_characters
from streamer.settings.settings import Settings
from streamer.text.characters import fold

ALPHABETS: dict[Language, list[str]] = {
    "zh": [chr(0x4E00 + number) for number in range(2_000)],
    "en": list("abcdefghijklmnopqrstuvwxyz0123456789"),
}


@cache
def crafted_line(language: Language, letters: int) -> tuple[str, int]:
    """A line against the public hash with the default settings, and how many bins it wins."""
    settings, alphabet = Settings().minhash, ALPHABETS[language]
    wide, narrow = settings.shingle_characters_wide, settings.shingle_characters_narrow
    size = wide if language == "zh" else narrow
    line, shift = "".join(random.Random(1).choices(alphabet, k=size - 1)), 65 - settings.bins.bit_length()
    least = np.full(settings.bins, 0.05 * 2**shift)
    for _ in range(letters):
        tail = line[1 - size :]
        hashes = shingle_characters(fold([tail + letter for letter in alphabet]), wide, narrow).hashes
        bins, low = (hashes >> np.uint64(shift)).astype(int), (hashes & np.uint64(2**shift - 1)).astype(float)
        chosen = int((np.log(low + 1) - np.log(least[bins])).argmin())
        # A bin that has been won is worth little; a bin whose minimum is still high is worth more.
        least[bins[chosen]] = min(least[bins[chosen]], low[chosen])
        line += alphabet[chosen]
    return line, int(np.count_nonzero(least < 0.05 * 2**shift))
