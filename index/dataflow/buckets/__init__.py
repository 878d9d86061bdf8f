"""Entries of CLAIM in the state, by page: many in each for blocks, few or none for bands."""
