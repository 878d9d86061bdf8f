"""The log-structured merge tree: memtable, compaction, segments, and looking up in all of them."""
