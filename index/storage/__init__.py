"""The data file: LMDB, the bytes, and what they mean as log, journal, sources and documents."""
