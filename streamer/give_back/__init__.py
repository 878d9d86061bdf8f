"""Commands that resend: duplicates to the unique output, dead letters to the input, each once."""
