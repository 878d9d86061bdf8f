"""The log-structured merge tree: memtable, compaction, segments, and look-ups across all of them."""
