"""Why a record was decided as it was: what the index knows, the texts, and the setting that spoke, in words."""
