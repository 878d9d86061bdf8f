"""What other settings would have decided of all that was delivered."""
