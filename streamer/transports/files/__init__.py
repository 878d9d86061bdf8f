"""The transport over files and pipes."""
