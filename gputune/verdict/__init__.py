"""What a run's features and findings come to: which finding speaks, and the document of it."""
