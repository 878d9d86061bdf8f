"""Settings for the two schemes: how a document becomes a fingerprint."""

from typing import Literal

from pydantic import Field

from streamer.settings.second_look import LookKind
from streamer.settings.types import File, Markup, Section, TagFactors


class Fingerprint(Section):
    """How a document becomes a fingerprint. The index is stamped with all of it."""

    scheme: Literal["minhash", "simhash"] = "minhash"
    """MinHash compares sets of shingles, by the section minhash. SimHash compares words, by index.distance_max and the
    settings below; at their defaults, they are the preset simhash-best.
    """
    bits: Literal[64, 128] = 64
    """Length of the fingerprint."""
    features: Literal["words", "shingles"] = "shingles"
    """Words, or runs of consecutive words."""
    shingle_words: int = Field(2, ge=2, le=10)
    """Words in a shingle."""
    weight: Literal["tf", "log-tf"] = "log-tf"
    """Weight of a feature that occurs tf times: tf, or 1 + ln tf."""
    segmenter: Literal["compiled", "jieba"] = "compiled"
    """Splits Han text into words: jieba's algorithm as machine code, or jieba. Both give the same words."""
    character_shingle_size: int = Field(2, ge=1, le=8)
    """Characters in a feature of scripts without spaces."""
    features_min: int = Field(20, ge=1)
    """A document with fewer distinct features matches only equal normalised text."""
    idf: str | None = Field(None, min_length=1, title='"jieba" or the path of a table')
    """Rare words count more, by jieba's table for Chinese or a table of `streamer idf build`."""
    topic_length: bool = False
    """Words as long as topic words usually are count up to twice (1 + len)."""
    word_length: bool = False
    """The longest words of a document count twice, the shortest once."""
    part_of_speech: TagFactors | None = None
    """Words count by their tag in jieba's dictionary."""
    marker_factor: int = Field(1, ge=1, le=100)
    """Words in a sentence that sums up or turns the text count this many times."""
    markers: File | None = None
    """File of words and phrases that mark such a sentence, one on each line."""
    title_factor: int = Field(1, ge=1, le=100)
    """Words of the text that the title holds count this many times."""
    dictionary: File | None = None
    """File of words for the segmenter, on each line: word [frequency] [tag]."""
    stop_words: str | None = Field(None, min_length=1, title='"particles" or the path of a file')
    """Words to leave out: the particles that the package brings, or a file, one on each line."""
    markup: Markup = "auto"
    """Both schemes: how HTML is compared. auto reads each text [as what it is](inputs.md#pages-and-texts): a page by its
    article if the page holds little else, a fragment without its tags, any other text as it stands. html takes all texts for
    HTML and compares what can be seen, html-main their articles. none compares tags too. If unset, an index in place keeps
    its own value.
    """
    simplify: bool = False
    """Both schemes: Traditional characters count as their Simplified forms."""
    key: Literal["secret", "public"] = "secret"
    """Both schemes: hashes depend on a secret key, so that texts cannot be crafted to match others, or to hide. A new index
    makes its own. The public key gives the same fingerprints everywhere, for reproducible work.
    """
    key_file: File | None = None
    """File with the secret key, 32 hexadecimal digits, for hosts, parts or Flink that share one. `streamer index key`
    prints an index's key.
    """
    second_look: LookKind = "none"
    """SimHash: further test of a match, by the cosine of feature weights, or by metadata."""


class Minhash(Section):
    """Signatures of shingles, with `fingerprint.scheme = "minhash"`."""

    similarity_min: float = Field(0.7, ge=0.3, le=1.0)
    """Minimum estimated Jaccard similarity of near-duplicates, by their shingles. The bands follow from it. A restart
    applies a larger value.
    """
    shingles: Literal["characters", "words"] = "characters"
    """Shingles of a document: runs of letters, or runs of words (docs/minhash.md)."""
    shingle_words: int = Field(3, ge=1, le=10)
    """Words in a shingle of words."""
    shingle_characters_wide: int = Field(5, ge=1, le=32)
    """Letters in a shingle that begins with an ideograph, kana, Hangul, or in another script without spaces, such as Thai."""
    shingle_characters_narrow: int = Field(12, ge=1, le=32)
    """Letters in a shingle that begins with any other letter or digit: two or three words."""
    bins: Literal[64, 128, 256] = 128
    """Values in a signature."""
    bin_bits: Literal[4, 8] = 8
    """Bits of each value."""
    features_min: int = Field(8, ge=1, le=64)
    """A document that fills fewer bins matches only equal normalised text."""
