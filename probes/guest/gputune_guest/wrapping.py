"""Standing in the place of theirs, and being called back by them: here alone, for all of the guest.

What comes of a call of theirs is theirs alone, whatever becomes of us:

- The original is called once, with what it was called with. What we do before and after it may fail: that is counted
  (`ring.failed`) and forgotten.
- No frame of ours is left in a traceback that passes: in C (`_fast.Around`) there is none, and what torch warns of in C
  names the user's line as well; in Python they are taken out on the way (`cut`).
- All that is needed for that is held in closures: an interpreter that ends sets the names of modules to None while
  iterators of theirs still have workers to shut down. Then our part fails in silence, and theirs is done.
"""

import atexit
import functools
import os
import sys
import weakref

from gputune_guest.here import fast

_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
ONE_TRACEBACK = (3, 11)  # since then; before, a handler that raises again does so with one that it has kept
TEXT = "__text_signature__"  # of what is written in C, which `wraps` does not know
_anew = []  # functions that forget what was told


def _swallowing(finalizing):
    told = []

    def swallow(error):
        """Tell of an error of ours, once there is somebody to tell; at the interpreter's end it is none of ours."""
        try:
            if told and not finalizing():
                told[0](error)
        except Exception:  # nobody is left to tell
            return

    return told.append, swallow


def holder():
    """Return what holds an object for good, whoever else lets go of it."""
    import ctypes

    return ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_IncRef", ctypes.pythonapi))


def _keeper():
    """Return what has a handler keep another traceback, or None where it keeps none of its own."""
    if sys.version_info >= ONE_TRACEBACK or sys.implementation.name != "cpython":
        return None
    import ctypes

    api, thing = ctypes.pythonapi, ctypes.py_object
    keep = ctypes.PYFUNCTYPE(None, thing, thing, thing)(("PyErr_SetExcInfo", api))
    hold = holder()
    handled = sys.exc_info

    def kept(error, trace):
        if handled()[1] is error:
            for one in (type(error), error, trace):
                hold(one)  # `keep` takes them
            keep(type(error), error, trace)

    return kept


def _cutting(folder, keep):
    def cut(error):
        """Take the frames of this package out of the traceback of an exception that is being handled."""
        try:
            first = last = None
            trace = error.__traceback__
            while trace is not None:
                following = trace.tb_next
                if not trace.tb_frame.f_code.co_filename.startswith(folder):
                    if last is None:
                        first = trace
                    elif last.tb_next is not trace:
                        last.tb_next = trace
                    last = trace
                trace = following
            if last is not None and last.tb_next is not None:
                last.tb_next = None
            error.__traceback__ = first
            if keep is not None:
                keep(error, first)
        except Exception:  # an exception that does not let itself be touched
            return

    return cut


fail_with, swallow = _swallowing(sys.is_finalizing)
cut = _cutting(_FOLDER, _keeper())
FAILING = swallow, cut
if fast is not None:
    fast.cut(cut)


def _nothing(*_call):
    return


def always(_args, _kwargs):
    """Have `after` called in any case."""
    return True


def put(owner, name, make):
    """Put `make(original)` in the place of `owner.name`, for good: what an object is served by stays to its end."""
    setattr(owner, name, make(getattr(owner, name)))


def wraps(original):
    """Return what makes a function of ours look like theirs, as `functools.wraps` does."""

    def dressed(ours):
        functools.update_wrapper(ours, original, updated=() if isinstance(original, type) else ("__dict__",))
        text = getattr(original, TEXT, None)
        if text is not None:
            setattr(ours, TEXT, text)
        return ours

    return dressed


def opaque(wrapper):
    """Return a wrapper marked as `torch.compiler.disable` would: dynamo ends its graph there, as before torch's own."""
    wrapper._torchdynamo_disable = True
    wrapper._torchdynamo_disable_msg = "gputune listens to the DataLoader, which is not traced either"
    return wrapper


def compiling():
    """Return torch's function that dynamo takes for a constant True while it traces; old ones say False."""
    compiler = getattr(sys.modules["torch"], "compiler", None)
    return getattr(compiler, "is_dynamo_compiling", None) or bool


def around(original, before, after=_nothing, binds=None):
    """Return what calls `before(args, kwargs)`, theirs, and `after(begun, result, error)` unless `before` returns None.

    `error` is what theirs has raised, and `result` None then. Neither can change what comes of theirs. Ours binds to an
    instance if theirs does, unless `binds` says otherwise.
    """
    if binds is None:
        binds = hasattr(type(original), "__get__")  # what is in C often does not: `class Log: write = print`
    if fast is not None:
        return wraps(original)((fast.Around if binds else fast.Loose)(original, before, after, swallow))
    python = _python_around(original, before, after, bool)
    return wraps(original)(python) if binds else Stand(original, python)


def collected(original, before, after=_nothing):
    """Return the same as `around` for a function of the user's own: in Python, for the cycles that it may close.

    What stands for it in C is nothing that the garbage collector can look through.
    """
    return wraps(original)(_python_around(original, before, after, bool))


def traced(original, before, after=_nothing, quick=None):
    """Return the same for what torch.compile may meet and trace: where it does, ours is not there.

    What is in C cannot be traced: before the first time that anything is compiled, the same in Python takes its place.
    `quick` is what is in C and does the same, where that is another than `fast.Around`.
    """
    from gputune_guest import dynamo, patching

    python = wraps(original)(_python_around(original, before, after, compiling()))
    if fast is not None and not hasattr(type(original), "__get__"):
        return around(original, before, after)  # in C itself, and known to dynamo by what goes by its name: `print`
    if fast is None or dynamo.asked():
        return python
    quick = around(original, before, after) if quick is None else wraps(original)(quick)
    dynamo.at_first(lambda: patching.replace(quick, python))
    return quick


def _python_around(original, before, after, tracing):
    def wrapper(*args, **kwargs):
        if tracing():
            return original(*args, **kwargs)
        begun = None
        try:
            try:
                begun = before(args, kwargs)
            except Exception as error:
                swallow(error)
            result = original(*args, **kwargs)
        except BaseException as error:
            cut(error)
            if begun is not None:
                told(begun, None, error)
            raise
        if begun is not None:
            told(begun, result, None)
        return result

    told, swallow, cut = quiet(after), *FAILING
    return wrapper


def instead(original, ours, to_the_end=False):
    """Return what calls `ours(original, …)`, which has to call theirs itself.

    At the interpreter's end theirs alone is called; not so `to_the_end`, where theirs must not be called as it is.
    """
    return wraps(original)(_through(original, ours, bool if to_the_end else sys.is_finalizing))


def _through(original, ours, over):
    def wrapper(*args, **kwargs):
        try:
            if over():
                return original(*args, **kwargs)
            return ours(original, *args, **kwargs)
        except BaseException as error:
            cut(error)
            raise

    _swallow, cut = FAILING
    return wrapper


def changed(original, change, after, swallow=swallow):
    """Return what calls theirs with what `change(args, kwargs)` makes of its arguments, and `after` with the same."""

    def ours(original, *args, **kwargs):
        try:
            args, kwargs = change(args, kwargs)
        except Exception as error:
            swallow(error)
        try:
            return original(*args, **kwargs)
        finally:
            told(args, kwargs)

    told = quiet(after)
    return instead(original, ours)


class Stand:
    """Stands for a function of the system; no function itself, for a class that holds one of those does not bind it."""

    _cut = staticmethod(cut)

    def __init__(self, original, call):
        functools.update_wrapper(self, original, updated=())
        self._original, self._call = original, call

    def __call__(self, *args, **kwargs):
        """Call what stands for it."""
        try:
            return self._call(*args, **kwargs)
        except BaseException as error:
            self._cut(error)
            raise

    def __getattr__(self, name):
        return getattr(vars(self)["_original"], name)


def quiet(function, swallow=swallow, cut=cut):
    """Return what calls a function of ours, and lets none of our errors pass: for all that calls us back."""

    def call(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except Exception as error:
            swallow(error)
        except BaseException as error:  # a Ctrl-C that has struck here
            cut(error)
            raise

    return call


def when_gone(theirs, function, *args):
    """Return a weak reference to an object of theirs; `function(*args)` is called when it goes."""
    call = quiet(function)
    return weakref.ref(theirs, lambda _reference: call(*args))


def before_fork(function):
    """Have a function called in this process before it forks."""
    os.register_at_fork(before=quiet(function))


def after_fork(function, anew=True):
    """Have a function called in every child that is forked, and with `anew` where another run begins in this process.

    Both times what an earlier ring was told has to be told again.
    """
    call = quiet(function)
    os.register_at_fork(after_in_child=call)
    if anew:
        _anew.append(call)


def at_anew(function):
    """Have a function called where another run begins in this process."""
    _anew.append(quiet(function))


def anew():
    """Forget what the ring of an earlier run was told."""
    for call in _anew:
        call()


def at_exit(function):
    """Have a function called when the interpreter ends."""
    atexit.register(quiet(function))


class _Last(list):
    """Functions to call when the interpreter lets go of all modules: threads are over by then, and so is `atexit`."""

    def __del__(self):
        for function in self:
            function()


def at_last(function):
    """Have a function called at the very end, to let go of theirs: it would outlive the script's `__del__`."""
    name = __package__ + ".last"
    if name not in sys.modules:
        sys.modules[name] = _Last()
    sys.modules[name].append(quiet(function))


def listen(function):
    """Have a function called with each of Python's audit events, to the end of the process."""
    sys.addaudithook(quiet(function))
