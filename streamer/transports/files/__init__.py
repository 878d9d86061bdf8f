"""The seam to files and pipes."""
