from itertools import islice

import orjson

from bench.soak import PARTS, Sample, by_part, documents


def test_documents_differ_but_for_every_tenth_which_is_a_recent_one_with_a_word_changed() -> None:
    words = [orjson.loads(line)["text"].split() for line in islice(documents(7), 60)]
    known: list[list[str]] = []
    for number, own in enumerate(words):
        differing = min((sum(a != b for a, b in zip(own, one, strict=True)) for one in known), default=len(own))
        assert differing == 1 if number % 10 == 9 else differing > 100
        if number % 10 != 9:
            known.append(own)


def test_what_grows_to_the_end_shows_as_a_column_that_grows() -> None:
    samples = [Sample(at, 100.0, float(at), 7, 3) for at in range(20 * PARTS)]
    parts = by_part(samples)
    assert [part["index_mib"] for part in parts] == [20 * part + 9.5 for part in range(PARTS)]
    assert {part["memory_mib"] for part in parts} == {100.0}
