"""Why a record got its verdict: the index's data, the texts, and the deciding setting, in words."""
