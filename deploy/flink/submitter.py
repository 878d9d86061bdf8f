"""Submits jobs one after the other: `flink run` starts two JVMs and a Python for each, and takes ten seconds of a processor.

Runs in Flink's environment, with FLINK_CONF_DIR. Each line of the input is a request, and each line of the output its answer:

    {"script": path, "arguments": [...], "settings": {name: value}}    as `flink run` takes a script, and what is set for this job
    {"job": id} or {"error": words}
"""

import json
import os
import runpy
import sys
import traceback
import uuid
from collections.abc import Mapping, Sequence

from pyflink.common import Configuration
from pyflink.java_gateway import get_gateway


def submitted(script: str, arguments: Sequence[str], settings: Mapping[str, str]) -> str:
    """Id of the job that a script submitted to the cluster of Flink's configuration."""
    flink = get_gateway().jvm.org.apache.flink
    job = uuid.uuid4().hex
    chosen = Configuration()
    for name, value in {**settings, "$internal.pipeline.job-id": job}.items():
        chosen.set_string(name, value)
    configuration = flink.configuration.GlobalConfiguration.loadConfiguration()
    configuration.addAll(chosen._j_configuration)
    loader = get_gateway().jvm.Thread.currentThread().getContextClassLoader()
    executors = flink.core.execution.DefaultExecutorServiceLoader()
    # What the script asks for its environment is what `flink run` would give it.
    context = flink.client.program.StreamContextEnvironment
    context.setAsContext(executors, configuration, loader, False, True)
    try:
        sys.argv = [script, *arguments]
        runpy.run_path(script, run_name="__main__")
    finally:
        context.unsetAsContext()
    return job


def main() -> None:
    """Answer requests until the input ends."""
    # The script may print what it likes.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"job": submitted(request["script"], request["arguments"], request["settings"])}
        except (Exception, SystemExit):  # noqa: BLE001 - whoever asked is told
            answer = {"error": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
