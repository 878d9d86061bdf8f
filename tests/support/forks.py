"""A forked child that answers by a pipe."""

import os
import pickle
import traceback
import warnings
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def forked(function: Callable[[], Result]) -> Callable[[], Result]:
    """Run `function` in a fork of this process, from now on; the returned function waits for its result."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Later versions of Python warn of forks beside threads, which are what some tests are about.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        # The child must never return into the test's code.
        code = 1
        try:
            os.close(reading)
            with os.fdopen(writing, "wb") as file:
                pickle.dump(function(), file)
            code = 0
        finally:
            if code:
                traceback.print_exc()
            os._exit(code)
    os.close(writing)

    def wait() -> Result:
        with os.fdopen(reading, "rb") as file:
            content = file.read()
        _, status = os.waitpid(child, 0)
        assert status == 0, "the child's traceback is above"
        result: Result = pickle.loads(content)
        return result

    return wait
