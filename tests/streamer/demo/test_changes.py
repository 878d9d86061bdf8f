"""Changes between the words of two texts."""

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from streamer.demo.changes import compare

word = st.sampled_from(["Ash", "birch", "Cedar", "don't", "elm", "7"])
few_words = st.lists(word, min_size=1, max_size=6).map(" ".join)


@settings(max_examples=60, deadline=None)
@given(few_words, few_words)
def test_changes_without_gaps_give_both_texts_back(before: str, after: str) -> None:
    spans, hidden = compare(before, after)
    assume(spans and not hidden)
    old = " ".join(span.text for span in spans if span.kind != "added")
    new = " ".join(span.text for span in spans if span.kind != "removed")
    assert old.casefold().split() == before.casefold().split()
    assert new.split() == after.split()
