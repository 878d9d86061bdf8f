"""SimHash over weighted words."""
