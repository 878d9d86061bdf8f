"""Submits jobs from one process: `flink run` starts two JVMs and a Python for each, and takes ten processor seconds.

Runs in Flink's environment, with FLINK_CONF_DIR. Each input line is a request, and each output line its answer:

    {"script": path, "arguments": [...], "settings": {name: value}}    script as for `flink run`, settings for this job
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
    """Run a script that submits a job to the configured cluster; returns the job's id."""
    flink = get_gateway().jvm.org.apache.flink
    job = uuid.uuid4().hex
    chosen = Configuration()
    for name, value in {**settings, "$internal.pipeline.job-id": job}.items():
        chosen.set_string(name, value)
    configuration = flink.configuration.GlobalConfiguration.loadConfiguration()
    configuration.addAll(chosen._j_configuration)
    loader = get_gateway().jvm.Thread.currentThread().getContextClassLoader()
    executors = flink.core.execution.DefaultExecutorServiceLoader()
    # The script gets the same environment as from `flink run`.
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
    # The script may print to standard output, so answers use a copy of it.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"job": submitted(request["script"], request["arguments"], request["settings"])}
        except (Exception, SystemExit):  # noqa: BLE001 - the answer has the error
            answer = {"error": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
