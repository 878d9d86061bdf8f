"""A service is ready while every worker runs, hears from the brokers and gets on; else the words say what is not so."""

import os
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.observe.batch_report import STEPS
from streamer.service.state import State
from streamer.settings.parts import settings_of
from streamer.settings.settings import load
from streamer.workers.readiness import GroupSeen, WorkerSeen, batch_age_ms_max, contact_age_ms_max, readiness

SETTINGS = load(None, ("kafka.bootstrap_servers=a:9092,b:9092", "workers.progress_timeout_ms=60000"), {})
SILENT_SECONDS = contact_age_ms_max(SETTINGS) / 1000
WELL = WorkerSeen(0, State.RUNNING, "read", 0.0, 1.0, started=True, alive=True)


def words(worker: WorkerSeen) -> str:
    ready, said = readiness(SETTINGS, [WELL, replace(worker, number=1)], GroupSeen())
    assert ready is (said == "ok")
    return said


def test_all_is_well_where_every_worker_runs_and_the_broker_answers() -> None:
    assert words(WELL) == "ok"
    assert words(replace(WELL, contact_age_seconds=SILENT_SECONDS)) == "ok"
    assert words(replace(WELL, contact_age_seconds=None)) == "ok"


def test_a_worker_that_has_heard_nothing_for_too_long_names_the_brokers_that_it_asks() -> None:
    assert (
        words(replace(WELL, contact_age_seconds=SILENT_SECONDS + 2))
        == f"worker 1 has heard nothing from the broker for {SILENT_SECONDS + 2:.0f} s (kafka.bootstrap_servers: a:9092, b:9092)"
    )


@pytest.mark.parametrize(
    ("step", "doing"),
    [("decode", "decoding"), ("fingerprint", "fingerprinting"), ("decide", "deciding"), ("commit", "delivering")],
)
def test_a_batch_that_takes_half_of_the_time_to_the_watchdog_is_told_with_its_step(step: str, doing: str) -> None:
    assert words(replace(WELL, step=step, batch_age_seconds=batch_age_ms_max(SETTINGS) / 1000)) == "ok"
    assert words(replace(WELL, step=step, batch_age_seconds=40.0)).startswith(
        f"worker 1 has had one batch for 40 s and is still {doing}; it is killed"
    )


def test_a_worker_with_records_to_deliver_that_delivers_none_for_eight_seconds_names_their_partitions() -> None:
    owing = replace(WELL, owed=[1, 3], owing_seconds=8.0)
    assert words(owing) == "ok"
    assert (
        words(replace(owing, owing_seconds=9.0))
        == "worker 1 has delivered nothing for 9 s, and has records of documents/1, documents/3 to deliver"
    )
    assert words(replace(owing, owing_seconds=9.0, step="decide", batch_age_seconds=9.0)) == "ok"


def test_time_before_a_batch_counts_with_the_time_in_it() -> None:
    amid = replace(WELL, step="decide", batch_age_seconds=25.0, owing_seconds=30.0)
    assert words(amid) == "ok"
    assert (
        words(replace(amid, owing_seconds=31.0))
        == "worker 1 has delivered nothing for 31 s, and has records of documents to deliver"
    )


def test_a_router_says_what_its_records_may_wait_for() -> None:
    settings = settings_of(SETTINGS, "route")
    _, said = readiness(settings, [replace(WELL, owed=[0], owing_seconds=9.0)], GroupSeen())
    assert "wait for verdicts in 'documents-verdicts'" in said


def test_a_worker_amid_a_batch_does_not_listen_so_its_silence_is_no_ones_fault() -> None:
    assert words(replace(WELL, step="decide", batch_age_seconds=25.0, contact_age_seconds=100.0)) == "ok"
    assert words(replace(WELL, step="commit", batch_age_seconds=25.0, contact_age_seconds=25.0)) == "ok"


def test_brokers_that_were_silent_before_a_batch_and_do_not_take_it_are_named_within_ten_seconds() -> None:
    amid = replace(WELL, step="commit", batch_age_seconds=2.0, contact_age_seconds=SILENT_SECONDS)
    assert words(amid) == "ok"
    assert words(replace(amid, batch_age_seconds=2.5, contact_age_seconds=9.5)).startswith(
        "worker 1 has heard nothing from the broker for 10 s"
    )
    assert SILENT_SECONDS < 10


def test_a_process_that_is_gone_is_told_as_gone_whatever_it_said_last() -> None:
    assert words(replace(WELL, alive=False)) == "worker 1 has just ended and will be restarted"
    assert (
        words(replace(WELL, started=False, alive=False, state=State.STOPPED)) == "worker 1 is waiting to be restarted"
    )


def test_a_worker_that_ended_for_the_silence_of_the_brokers_says_so_until_it_hears_from_them() -> None:
    ended = replace(WELL, exit_code=os.EX_TEMPFAIL, contact_age_seconds=100.0)
    silence = "and has heard nothing from the broker for 100 s (kafka.bootstrap_servers: a:9092, b:9092)"
    assert words(replace(ended, state=State.STARTING)) == f"worker 1 is starting {silence}"
    assert words(replace(ended, started=False)) == f"worker 1 is waiting to be restarted {silence}"
    assert words(replace(ended, state=State.STARTING, contact_age_seconds=1.0)) == "worker 1 is starting"
    assert words(replace(ended, state=State.STARTING, exit_code=1)) == "worker 1 is starting"


def test_a_worker_that_is_started_again_and_again_on_a_full_disk_says_so() -> None:
    full = replace(WELL, exit_code=os.EX_IOERR, state=State.STARTING)
    assert (
        words(full) == "worker 1 is starting; the one before ended for a disk that is full or fails: the log says which"
    )


@given(
    st.builds(
        WorkerSeen,
        number=st.integers(0, 63),
        started=st.booleans(),
        alive=st.booleans(),
        state=st.sampled_from(State),
        exit_code=st.none() | st.integers(-15, 130),
        step=st.sampled_from(STEPS),
        batch_age_seconds=st.floats(0, 1_000),
        contact_age_seconds=st.none() | st.floats(0, 1_000),
        owed=st.lists(st.integers(0, 9), max_size=3),
        owing_seconds=st.floats(0, 1_000),
    )
)
def test_only_a_live_worker_that_runs_is_ready_and_the_words_name_who_is_not(worker: WorkerSeen) -> None:
    ready, said = readiness(SETTINGS, [worker], GroupSeen())
    assert ready is (said == "ok")
    if ready:
        assert worker.started
        assert worker.alive
        assert worker.state is State.RUNNING
    else:
        assert said.startswith(f"worker {worker.number} ")


def test_who_keeps_a_worker_from_writing_is_told_with_it() -> None:
    stuck = replace(
        WELL, step="decide", batch_age_seconds=40.0, waits_for="process 7 (x) is stopped and holds the lock"
    )
    assert words(stuck).endswith("; process 7 (x) is stopped and holds the lock")
    assert words(replace(WELL, waits_for="process 7 (x) is stopped and holds the lock")) == "ok"


def test_a_batch_that_was_delivered_between_two_looks_is_not_under_way() -> None:
    assert words(replace(WELL, step="read", batch_age_seconds=31.0)) == "ok"


def test_another_program_in_the_group_is_named_even_where_every_worker_gets_on() -> None:
    ready, said = readiness(SETTINGS, [WELL], GroupSeen((3,), ("client 'reports' at 10.0.0.7 (partitions: 3)",)))
    assert not ready
    for part in ("client 'reports' at 10.0.0.7 (partitions: 3)", "'neardup'", "a group of their own"):
        assert part in said
