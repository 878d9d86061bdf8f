"""Records: read, decoded, given a reason, and routed."""
