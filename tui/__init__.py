"""The Textual application (the screen itself comes with a later release)."""
