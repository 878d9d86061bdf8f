"""How well settings tell near-duplicates from others, on documents whose truth is known."""
