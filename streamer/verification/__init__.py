"""Verification from first principles: input, outputs and index compared."""
