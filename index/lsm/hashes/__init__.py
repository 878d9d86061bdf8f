"""Hash tables: their shapes, levels and segments."""
