"""Strike a running service with faults of every kind, one after another, and check that nothing is lost, stuck or silent.

Documents flow into several partitions of a real broker without a break. Between the service and the broker stands a
proxy, so that links can be cut and stalled. After every fault the service must be ready again, and must deliver what
came in after it. At the end every input position stands in exactly one output, with the same bytes, and the index is
sound. With one partition the outputs must also equal those of an undisturbed run over the same input.

    python -m bench.chaos [--faults 100] [--kinds broker-killed,link-cut] [--partitions 1] [--seed N] [--json]
"""
