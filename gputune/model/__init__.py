"""What a loop would be under other settings: the replay, and what predictions stand on."""
