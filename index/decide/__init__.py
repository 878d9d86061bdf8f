"""A batch on its way to verdicts: look up, decide by the rule, write, retire what no longer counts."""
