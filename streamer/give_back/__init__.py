"""What a person sends once more: drops to the unique output, dead letters to the input. Each of them once."""
