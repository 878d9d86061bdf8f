"""jieba itself, unmodified, as others would use it; only its cache file in /tmp is left alone."""

import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any


@cache
def _loaded() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import jieba
    tokenizer = jieba.Tokenizer()
    with tokenizer.get_dict_file() as dictionary:
        tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(dictionary)
    tokenizer.initialized = True
    return tokenizer


def plain_jieba(entries: Sequence[tuple[str, int | None]] = ()) -> Any:
    """A `jieba.Tokenizer` that knows more words; those of frequency 0 every tokenizer of the process cuts up from now on."""
    if not entries:
        return _loaded()
    tokenizer = type(_loaded())()
    tokenizer.FREQ, tokenizer.total, tokenizer.initialized = _loaded().FREQ.copy(), _loaded().total, True
    for word, frequency in entries:
        tokenizer.add_word(word, frequency)
    return tokenizer
