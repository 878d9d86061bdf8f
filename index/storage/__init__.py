"""What stands in the file: LMDB, the bytes, and the log, journal, sources and documents that they mean."""
