"""`decide` on Apache Flink: the `index.dataflow` flow from fingerprints to verdicts."""
