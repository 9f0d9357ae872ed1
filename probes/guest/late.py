"""The way in for a process that runs already and lets us in by itself: a worker of Ray, before it begins a trial.

It calls `begin` with the folder of the rings. The laws of the island hold: standard library only, no exception leaves
this file, and what was imported before we came is patched in place, as it would have been right after its import.
"""

import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
NAME = "gputune_sitecustomize"  # ours under a name of its own: theirs was run long ago
LIBRARIES = ("torch", "tensorflow")
MOST = 256  # cells of a notebook: a quarter of the room that notes have


def begin(rings, host):
    """Write into rings in this folder from now on; `host` is the pid that may read our stacks. Return whether we do.

    A process that was joined before, for another run, goes on in rings of its own there.
    """
    try:
        os.environ["GPUTUNE_RINGS"] = rings
        os.environ["GPUTUNE_HOST_PID"] = str(host)
        _let_children_in()
        ring = sys.modules.get("gputune_guest.ring")
        if ring is not None:
            _say_hello(rings)
            ring.anew()
            sys.modules["gputune_guest.hook"]._let_the_recorder_look()
            return True
        finder = _sitecustomize().arrive()
        if finder is None:
            return False
        for name in LIBRARIES:
            if name in sys.modules:
                finder.fire(name, sys.modules[name])
    except Exception:  # not seen from inside, and not disturbed
        return False
    return True


def leave():
    """Write nothing more: the run is over, and this process goes on. Its next `begin` has us go on, too."""
    try:
        for name in ("GPUTUNE_RINGS", "GPUTUNE_HOST_PID"):  # a child that is forked from here on has nobody to tell
            os.environ.pop(name, None)
        ring = sys.modules.get("gputune_guest.ring")
        if ring is not None:
            ring.rest()
        else:  # nobody has imported torch: nobody waits for it any longer
            sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__module__ != NAME]
    except Exception:
        return


def tell_cells():
    """Say which cells of a notebook there are: stacks name the files that IPython compiles them under."""
    try:
        ring = sys.modules.get("gputune_guest.ring")
        cells = sys.modules["gputune_guest.places"].cells() if ring is not None else {}
        if cells:
            ring.note(n="cells", of=dict(list(cells.items())[-MOST:]))
    except Exception:
        return


def _say_hello(rings):
    flags = os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    os.close(os.open("%s/%d.hello" % (rings, os.getpid()), flags, 0o600))


def _let_children_in():
    """Have Pythons that are started from here, as spawned workers are, find our `sitecustomize` first."""
    others = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry and entry != HERE]
    os.environ["PYTHONPATH"] = os.pathsep.join([HERE, *others])


def _sitecustomize():
    if NAME in sys.modules:
        return sys.modules[NAME]
    spec = importlib.util.spec_from_file_location(NAME, os.path.join(HERE, "sitecustomize.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = module
    spec.loader.exec_module(module)
    return module
