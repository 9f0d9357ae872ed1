"""What gputune does inside a training process, once that has imported torch: docs/guest.md.

Standard library only, 3.8+.
"""
