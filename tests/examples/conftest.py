"""Which installation the examples run with."""

import pytest

from tests.support.installation import Installation, release, this_checkout


@pytest.fixture(scope="session")
def installation(request: pytest.FixtureRequest) -> Installation:
    """This checkout, or with --installed the release that this Python has."""
    named = request.config.getoption("--installed")
    return this_checkout() if named is None else release(named)
