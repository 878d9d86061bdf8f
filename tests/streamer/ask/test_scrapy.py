"""What the pipelines are made of. tests/examples/test_scrapy.py runs them in the real Scrapy."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from streamer.ask.scrapy import Batcher


class Doubling:
    """Doubles values, in calls that are counted; the first waits until it may end."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.first_has_begun = threading.Event()
        self.first_may_end = threading.Event()

    def __call__(self, values: Sequence[int]) -> list[int]:
        self.calls.append(list(values))
        self.first_has_begun.set()
        assert self.first_may_end.wait(20)
        if 13 in values:
            raise ValueError("no thirteen")
        return [2 * value for value in values]


async def begun(in_turn: Batcher[int, int], doubling: Doubling, first: int, *others: int) -> list[asyncio.Task[int]]:
    """Tasks that ask for each value; the function runs with the first."""
    tasks = [asyncio.create_task(in_turn(first))]
    await asyncio.to_thread(doubling.first_has_begun.wait, 20)
    tasks += [asyncio.create_task(in_turn(other)) for other in others]
    await asyncio.sleep(0)
    return tasks


def test_values_that_come_while_a_call_runs_go_together_next() -> None:
    doubling = Doubling()

    async def ask() -> list[int]:
        tasks = await begun(Batcher(doubling), doubling, 1, 2, 3, 4)
        doubling.first_may_end.set()
        return await asyncio.gather(*tasks)

    assert asyncio.run(ask()) == [2, 4, 6, 8]
    assert doubling.calls == [[1], [2, 3, 4]]


def test_an_error_reaches_all_who_went_together_and_nobody_else() -> None:
    doubling = Doubling()

    async def ask() -> list[int | BaseException]:
        in_turn = Batcher(doubling)
        tasks = await begun(in_turn, doubling, 1, 13, 14)
        doubling.first_may_end.set()
        return [*await asyncio.gather(*tasks, return_exceptions=True), await in_turn(5)]

    first, thirteen, beside, after = asyncio.run(ask())
    assert (first, after) == (2, 10)
    assert isinstance(thirteen, ValueError)
    assert isinstance(beside, ValueError)


def test_a_caller_who_gives_up_takes_nothing_from_the_others() -> None:
    doubling = Doubling()

    async def ask() -> int:
        given_up, waiting = await begun(Batcher(doubling), doubling, 1, 2)
        given_up.cancel()
        doubling.first_may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        return await waiting

    assert asyncio.run(ask()) == 4
