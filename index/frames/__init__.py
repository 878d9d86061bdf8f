"""Host frames: what a host's pages often share, and the rule that ignores it."""
