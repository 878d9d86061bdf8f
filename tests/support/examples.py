"""How many examples hypothesis makes: a test names its number, and the profile of the run says which part of it."""

import hypothesis

PERCENT_OF_ALL = 100
EXAMPLES_MIN = 3


def examples(number: int, *suppressed: hypothesis.HealthCheck) -> hypothesis.settings:
    """Settings of a test that takes so many examples in the standard profile, without some of the library's checks.

    >>> examples(40).max_examples == 40 * hypothesis.settings.default.max_examples // 100
    True
    """
    share = number * hypothesis.settings.default.max_examples // PERCENT_OF_ALL
    return hypothesis.settings(max_examples=max(EXAMPLES_MIN, share), suppress_health_check=suppressed)
