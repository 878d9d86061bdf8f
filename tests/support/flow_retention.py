"""How long a drawn flow keeps entries."""

from hypothesis import strategies as st

from index.dataflow import Retained
from index.session import Retention


def retained_by(data: st.DataObject) -> Retained:
    by_number, by_age = data.draw(
        st.sampled_from([(True, False), (False, True), (True, True)]), label="by number, by age"
    )
    entries_max = data.draw(st.sampled_from([1, 3, 10, 40]), label="entries_max") if by_number else None
    age_max_ms = data.draw(st.sampled_from([1, 50, 200, 600]), label="age_max_ms") if by_age else None
    return Retained(Retention(entries_max, age_max_ms), data.draw(st.sampled_from([5, 50, 500]), label="epoch_ms"))
