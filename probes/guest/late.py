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
            ring.anew()
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
