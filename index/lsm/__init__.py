"""The log-structured merge tree: memtable, compaction, levels of segments, and lookups across them."""
