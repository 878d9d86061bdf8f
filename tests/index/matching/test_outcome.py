from dataclasses import replace

import numpy as np

from index.entry import NO_NUMBER, Verdict
from index.matching.outcome import ROW_ORDER, Outcome

U, D, UPDATE = Verdict.UNIQUE, Verdict.DUPLICATE, Verdict.UPDATE
OWN = ROW_ORDER

OUTCOME = Outcome(
    verdicts=np.array([U, D, D, U, UPDATE, UPDATE, Verdict.TEMPLATE, Verdict.DEAD_LETTER], np.uint8),
    distances=np.full(8, 1, np.int16),
    entering=np.array([True, False, True, True, True, True, True, False]),
    first_number=10,
    orders=np.array([OWN, OWN, 7, OWN + 3, 5, OWN + 3, 4, OWN + 7], np.uint64),
)


def test_entering_rows_are_numbered_in_order_and_rows_name_documents_by_number() -> None:
    none = int(NO_NUMBER)
    assert OUTCOME.numbers.tolist() == [10, none, 11, 12, 13, 14, 15, none]
    assert OUTCOME.named.tolist() == [none, 10, 7, none, 5, 12, 4, none]
    assert OUTCOME.originals.tolist() == [10, 10, 7, 12, 13, 14, 15, none]
    assert OUTCOME.replaced.tolist() == [5, OWN + 3]


def test_a_row_that_enters_after_all_renumbers_the_rows_after_it() -> None:
    verdicts, entering = OUTCOME.verdicts.copy(), OUTCOME.entering.copy()
    verdicts[1], entering[1] = Verdict.SUSPECT, True
    outcome = replace(OUTCOME, verdicts=verdicts, entering=entering)
    assert outcome.numbers.tolist()[:4] == [10, 11, 12, 13]
    assert outcome.named.tolist()[1:6] == [10, 7, int(NO_NUMBER), 5, 13]
