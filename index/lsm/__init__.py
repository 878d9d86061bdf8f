"""The log-structured merge tree: memtable, compaction, segments, and lookups across them."""
