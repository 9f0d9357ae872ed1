"""An error that ended a script, in words: what it was, and the line of the script that it came up at."""

import sys

from gputune_guest import places

LONGEST = 200  # characters that are told of a message
HIDDEN = "Traceback (most recent call last)"  # in a message: it tells of another process's error, which stands last
left = ()  # (why, where) of the last `sys.exit`; one that somebody caught is forgotten at the next


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
    if frame.f_code.co_filename.startswith("<frozen "):  # nothing of theirs ran: `python -m` has found no module
        return ""
    return places.name(frame.f_code.co_filename, frame.f_lineno)


def leaves(args, frame):
    """Keep why a script leaves by `sys.exit`: Python forgets that exception before it tells anybody of the end.

    What it says; or what went wrong where it handles that just now, as click does; or what argparse has just written.
    """
    global left
    threading = sys.modules.get("threading")
    if threading is not None and threading.current_thread() is not threading.main_thread():
        return
    status, by = args[0] if args else None, frame.f_globals.get("__name__")
    handled, what = sys.exc_info()[1], ""
    if handled is None and by == "click.core":  # since 8.5 it leaves when it has told of the error that it handled
        handled = getattr(frame.f_locals.get("report"), "__self__", None)
    if status is not None and not isinstance(status, int):
        what = "sys.exit: %s" % status
    elif status and isinstance(handled, Exception):
        what, frame = line(handled), innermost(handled)
    elif status and by == "argparse":
        what = str(frame.f_locals.get("message") or "")
    lines = [each.strip() for each in what.splitlines() if each.strip()]
    left = (lines[0][:LONGEST], where(frame)) if lines else ()


def forget():
    """Forget it: this is another process."""
    global left
    left = ()
