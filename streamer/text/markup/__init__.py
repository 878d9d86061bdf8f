"""HTML: what is a page, its article by a library, and limits that keep parsers fast."""
