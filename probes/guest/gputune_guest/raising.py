"""An error that ended a script, in words: what it was, and the line of the script that it came up at."""

from gputune_guest import places

LONGEST = 200  # characters that are told of a message
HIDDEN = "Traceback (most recent call last)"  # in a message: it tells of another process's error, which stands last


def line(error):
    """Return an error in one line, as Python prints its first one: what another process raised, where it brings that.

    Such an error (of a DataLoader's worker, of `torch.multiprocessing.spawn`) has the other one's traceback in it.
    """
    lines = [each.strip() for each in str(error).splitlines() if each.strip()]
    if lines and HIDDEN in str(error):
        return lines[-1][:LONGEST]
    name = type(error).__name__
    return (name + ": " + lines[0] if lines else name)[:LONGEST]


def innermost(error):
    """Return the frame in which an error came up, None where no Python code did."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return None if trace is None else trace.tb_frame


def where(frame):
    """Return the user's line that a frame lies at or under: `train.py:31`, empty without a frame."""
    if frame is None:
        return ""
    frame = places.user_frame(frame)
    return places.name(frame.f_code.co_filename, frame.f_lineno)
