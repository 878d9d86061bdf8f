"""The job as a next release, to rehearse an upgrade: slots of twice the length, smaller chunks and segments, the same state."""

import runpy
from functools import partial
from pathlib import Path

from streamer.flink import carried

JOB = Path(carried.__file__).with_name("job.py")

if __name__ == "__main__":
    original = carried.dataflow_of
    carried.dataflow_of = partial(original, slot_ms=1_000, chunk_entries=64, segment_entries=1_024)
    try:
        # As a program, so that its functions travel by value. Tasks that import it at the same time block each other.
        runpy.run_path(str(JOB), run_name="__main__")
    finally:
        # The submitting process lives on.
        carried.dataflow_of = original
