"""Transport over files and pipes."""
