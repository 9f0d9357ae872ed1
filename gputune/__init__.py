"""gputune finds out why a GPU is not busy, and what the fix is worth."""

__version__ = "0.1.0"
