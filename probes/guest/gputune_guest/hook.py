"""Called once, right after the user's own `import torch` (or `tensorflow`) has finished: puts the families in place.

A family is a file with `HOOKS`, a dict of module name to function: the function gets the module as soon as that is
there, which is now or when they import it.
"""

import ctypes
import importlib
import os
import sys

from gputune_guest import here, places, ranks, ring, wrapping

FAMILIES = (
    *(
        "device",
        "allocator",
        "failing",
        "loader",
        "dali",
        "picks",
        "pinning",
        "draws",
        "fetch",
        "sharding",
        "dynamo",
        "step",
        "forward",
        "precision",
        "evaluation",
        "nograd",
        "environments",
        "rllib",
        "checkpoint",
        "logs",
        "reporting",
        "cleanup",
        "sync",
        "peers",
        "standing",
        "collective",
        "horovod",
        "remote",
        "reductions",
        "compiling",  # the last one: it marks what the others have defined
    ),
)
TENSORFLOW = ("tfdata", "tffit", "failing")
ON_REQUEST = (  # below the others: what they do is seen
    ("GPUTUNE_OVERRIDE", "override"),
    ("GPUTUNE_STEER", "steer"),
    ("GPUTUNE_TRIAL", "trial"),
    ("GPUTUNE_TRIAL", "write_sandbox"),
)
PR_SET_PTRACER = 0x59616D61


def begin(finder, torch):
    """Put hooks into all that is there, and wait for the rest. The finder of sitecustomize calls this."""
    places.library(torch)
    asked = [name for variable, name in ON_REQUEST if os.environ.get(variable)]
    if os.environ.get("GPUTUNE_ONLY"):  # `gputune run`: a ring only where there is something to tell
        _put(finder, asked)
        return
    ring.begin(lambda: _process(torch))
    _put(finder, (*asked, *FAMILIES))
    wrapping.at_exit(ring.end)
    _let_the_recorder_look()


def begin_tensorflow(finder, tensorflow):
    """Do the same for TensorFlow, in a process that may have torch as well, earlier or later."""
    if os.environ.get("GPUTUNE_ONLY"):
        return
    places.library(tensorflow)
    ring.begin(lambda: _process(sys.modules.get("torch"), tensorflow))
    _put(finder, TENSORFLOW)
    wrapping.at_exit(ring.end)
    _let_the_recorder_look()


def _put(finder, names):
    for name in names:
        try:
            family = importlib.import_module("gputune_guest." + name)
        except Exception as error:
            ring.failed(error)
            continue
        for module, function in family.HOOKS.items():
            when_there(finder, module, function)


def when_there(finder, name, function):
    """Call `function` with the module called `name`, now or after it was imported."""

    def hook(module):
        try:
            function(module)
        except Exception as error:
            ring.failed(error)

    module = sys.modules.get(name)
    half = getattr(getattr(module, "__spec__", None), "_initializing", False)
    if module is not None and (name == "torch" or not half):  # torch itself has just finished
        hook(module)
        return
    earlier = finder.hooks.get(name)

    def both(module):
        if earlier is not None:
            earlier(module)
        hook(module)

    finder.hooks[name] = both


def _process(torch, tensorflow=None):
    """Return the note that says what this process is. Of argv only the program: the rest may hold secrets."""
    if ring.is_worker():
        return None
    version = getattr(torch, "version", None)

    rank, world_size, local_rank = ranks.told()
    return {
        "n": "process",
        "argv0": (getattr(sys, "argv", None) or [""])[0],
        "python": "%d.%d.%d" % sys.version_info[:3],
        "torch": str(getattr(torch, "__version__", "")),
        "tensorflow": str(getattr(tensorflow, "__version__", "")),
        "cuda": getattr(version, "cuda", None) or getattr(version, "hip", None),
        "rank": rank,
        "local_rank": local_rank,
        "world_size": world_size,
        "native": here.fast is not None,
    }


def _let_the_recorder_look():
    """Let py-spy, a descendant of the recorder, read our stacks where the kernel's Yama would refuse it.

    torch and TensorFlow import ctypes in any case; `prctl` needs no privilege for this, and does no harm without Yama.
    """
    host = os.environ.get("GPUTUNE_HOST_PID", "")
    if host.isdigit():
        try:
            ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(int(host)), 0, 0, 0)
        except Exception as error:
            ring.failed(error)
