"""Records: as they come in, decoded, given a reason, and routed."""
