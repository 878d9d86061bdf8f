"""Operations of `streamer index`: plain values for machines, tables for people."""
