"""How well settings tell near-duplicates from other documents, on documents with known truth."""
