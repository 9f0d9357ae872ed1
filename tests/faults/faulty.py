"""Lets a function of the guest raise at its N-th call, in a training that imports this first; or lists what is called.

FAULTY   "module:qualified.name:N:Exception"        FAULTY_MET   a file that is made once it has raised
FAULTY_LISTING   a file for the functions that were called, a line each
"""

import atexit
import builtins
import importlib
import os
import sys
import threading
import types

HERE = {}
RAISER = "def raiser(*args, **kwargs):\n    return __import__('sys').modules['faulty'].call(args, kwargs)\n"


def call(args, kwargs):
    HERE["count"] += 1
    if HERE["count"] >= HERE["at"]:
        if not HERE["met"]:
            HERE["met"] = True
            os.close(os.open(os.environ["FAULTY_MET"], os.O_WRONLY | os.O_CREAT))
        raise HERE["error"]("a fault of the suite")
    return HERE["original"](*args, **kwargs)


def sabotage(asked):
    module, name, at, error = asked.split(":")
    found = importlib.import_module("gputune_guest." + module)
    for part in name.split("."):
        found = vars(found)[part] if isinstance(found, type) else getattr(found, part)
    function = found.__func__ if isinstance(found, staticmethod | classmethod) else found
    if not isinstance(function, types.FunctionType):  # it stands in C here
        return
    scope = {}
    exec(RAISER, scope)
    original = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    original.__kwdefaults__ = function.__kwdefaults__
    HERE.update(count=0, at=int(at), error=getattr(builtins, error), original=original, met=False)
    function.__code__ = scope["raiser"].__code__


def listing(file):
    called = set()

    def seen(frame, event, _argument):
        code = frame.f_code
        if event == "call" and "gputune_guest" in code.co_filename and "<" not in code.co_qualname:
            called.add(os.path.basename(code.co_filename).removesuffix(".py") + ":" + code.co_qualname)

    sys.setprofile(seen)
    threading.setprofile(seen)

    def told():
        sys.setprofile(None)
        with open(file, "w") as out:
            out.write("\n".join(sorted(called)))

    atexit.register(told)


if os.environ.get("FAULTY"):
    sabotage(os.environ["FAULTY"])
if os.environ.get("FAULTY_LISTING") and os.getpid() == int(os.environ.setdefault("FAULTY_MAIN", str(os.getpid()))):
    listing(os.environ["FAULTY_LISTING"])
