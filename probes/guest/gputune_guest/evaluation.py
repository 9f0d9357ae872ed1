"""Evaluation phases."""


def on_batch(mine, t0, t1, code):
    """Take notice of a next()."""


def on_iterator(mine, t0):
    """Take notice of a new iterator."""


def on_step(t0):
    """Take notice of an optimizer step or a backward pass."""
