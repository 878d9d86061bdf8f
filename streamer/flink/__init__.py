"""`decide` on Apache Flink: the `index.dataflow` flow between the topics for fingerprints and verdicts."""
