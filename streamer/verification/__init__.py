"""Verification from first principles: input, outputs and index held against each other."""
