"""`decide` on Apache Flink: the flow of `index.dataflow` between the topics of fingerprints and of verdicts."""
