"""What RESOLVE knows and decides."""
