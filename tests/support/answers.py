"""What the index answered, in the words of the oracle."""

from index.entry import NO_NUMBER, Decisions, Verdict
from tests.support.brute_force_index import Answer


def answers_of(decisions: Decisions) -> list[Answer]:
    return [
        Answer(
            Verdict(int(decisions.verdicts[row])),
            int(decisions.reasons[row]),
            int(decisions.distances[row]),
            None if decisions.originals[row] == NO_NUMBER else int(decisions.originals[row]),
            decisions.original_ids[row],
            decisions.original_positions[row],
        )
        for row in range(len(decisions))
    ]
