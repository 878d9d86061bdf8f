"""Tables of hashes: their shapes, levels and segments."""
