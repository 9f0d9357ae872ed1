"""The first line of gputune that runs inside somebody else's Python process.

We are a guest here. The interpreter is theirs, its packages are theirs, and it may be as old as Python 3.8. So this
file

- imports nothing that the interpreter has not loaded already but `atexit`, and does nothing unless `GPUTUNE_RINGS`
  names a folder (in a trial, a run of gputune's own, it may begin to keep what the script writes apart:
  `gputune_guest.write_sandbox`);
- leaves `PID.hello` there, so that the recorder can tell "no torch" from "no guest";
- leaves `PID.raised` there where an error, or what the script gives to `sys.exit`, ends it before that, to be told;
- takes its folder off `sys.path` again, and runs the `sitecustomize` that we stand in front of, as it would have run;
- patches nothing: it waits, by import hook, until *they* import torch or TensorFlow; then it hands over to
  `gputune_guest.hook`.

`tests/guest/test_sitecustomize.py` runs it under every interpreter that it promises, from 3.8 upwards.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = "gputune_guest"
_IMPORTS = "<frozen importlib._bootstrap>"
_ONE_TRACEBACK = (3, 11)  # since then: before, a handler that raises again does so with one that it has kept


class _Finder:
    """Stands first in `sys.meta_path`, answers None to all names but a few, and runs a hook after their import."""

    def __init__(self):
        # module name to what to call with the module, once
        self.hooks = {"torch": self._torch, "tensorflow": self._tensorflow}
        self._busy = set()

    def find_spec(self, name, path=None, target=None):
        """Return the spec that the other finders have for a name of ours, its loader lent to us for one call."""
        if name == _PACKAGE:
            return _path_finder().find_spec(name, [_HERE])
        if name not in self.hooks or name in self._busy:
            return None
        self._busy.add(name)  # other people's hooks ask sys.meta_path again: answer None then
        try:
            spec = self._found(name, path, target)
            if spec is not None:
                self._lend(spec, name)
            return spec
        finally:
            self._busy.discard(name)

    def _found(self, name, path, target):
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                return spec
        return None

    def _lend(self, spec, name):
        """Have our hook called after the module was executed; the loader is itself again as soon as that begins."""
        try:
            loader = spec.loader
            execute = loader.exec_module

            def exec_module(module):
                try:
                    del loader.exec_module
                except AttributeError:
                    pass
                execute(module)
                self.fire(name, module)

            # one of the import system's own, as tracebacks and warnings leave them out: an import that fails is theirs
            exec_module.__code__ = exec_module.__code__.replace(co_filename=_IMPORTS)
            loader.exec_module = exec_module
        except Exception:  # an odd loader: not seen from inside, and not disturbed
            return

    def fire(self, name, module):
        """Run the hook of `name`, which runs once whatever comes of it."""
        hook = self.hooks.pop(name, None)
        if hook is not None:
            try:
                hook(module)
            except Exception:  # a hook that fails is a hook that is not there
                return

    def _torch(self, module):
        from gputune_guest import hook

        hook.begin(self, module)

    def _tensorflow(self, module):
        from gputune_guest import hook

        hook.begin_tensorflow(self, module)


def _path_finder():
    import _frozen_importlib_external

    return _frozen_importlib_external.PathFinder


def arrive():
    """Say hello and put the finder in place; return it, None where there is nobody to listen.

    Whatever fails, the process goes on without us.
    """
    try:
        folder = os.environ.get("GPUTUNE_RINGS")
        if not folder or not os.path.isdir(folder):
            return None
        flags = os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        os.close(os.open("%s/%d.hello" % (folder, os.getpid()), flags, 0o600))
        finder = _Finder()
        sys.meta_path.insert(0, finder)
        _listen(folder)
        if '"writes"' in os.environ.get("GPUTUNE_TRIAL", ""):  # a run of ours, which is to leave no trace
            from gputune_guest import write_sandbox

            write_sandbox.begin(finder)
    except Exception:
        return None
    return finder


class _Leaving:
    """Stands for `sys.exit`, and is no function: a class that holds it does not bind it, as it would not theirs."""

    def __init__(self, theirs, why):
        self.__dict__.update(_theirs=theirs, _why=why, __name__=theirs.__name__, __doc__=theirs.__doc__)
        self.__dict__.update(__module__=theirs.__module__, __qualname__=theirs.__qualname__)

    def __call__(self, *args, **kwargs):
        """Call theirs, whose exception has no frame of ours in its traceback."""
        theirs = self._theirs
        self._why(args, kwargs)
        try:
            return theirs(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = None
            raise

    def __getattr__(self, name):
        return getattr(self._theirs, name)

    def __repr__(self):
        return repr(self._theirs)

    def __reduce__(self):
        return self.__name__  # of the module `sys`, where it is found again


def _leaves(args, kwargs):
    """Keep why they leave, where it is more than a status."""
    try:
        if kwargs or not args or args[0] is None or args[0] == 0:
            return
        from gputune_guest import raising

        raising.leaves(args, sys._getframe(2))
    except Exception:
        return


def _listen(folder):
    """Have the error told that ends a script before it has imported torch: from then on the guest's ring tells it."""
    import atexit

    pid = os.getpid()

    def tell():
        if os.getpid() != pid or _PACKAGE + ".ring" in sys.modules:
            return
        try:
            found = _ended_by()
            if not found:
                return
            import json

            told = {"n": "raised", "what": found[0], "where": found[1]}
            flags = os.O_CREAT | os.O_WRONLY | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            path = "%s/%d.raised" % (folder, pid)
            file = os.open(path + ".new", flags, 0o600)
            os.write(file, json.dumps(told).encode())
            os.close(file)
            os.rename(path + ".new", path)  # whole, or not there
        except Exception:
            return

    atexit.register(tell)
    if sys.version_info >= _ONE_TRACEBACK:
        sys.exit = _Leaving(sys.exit, _leaves)


def _ended_by():
    """Return what ended the script, and where: an error, what it gave to `sys.exit`, or that it is not there."""
    error = getattr(sys, "last_value", None)
    if error is not None:
        if not isinstance(error, Exception):  # a Ctrl-C is none
            return ()
        from gputune_guest import raising

        return raising.line(error), raising.where(raising.innermost(error))
    raising = sys.modules.get(_PACKAGE + ".raising")
    if raising is not None and raising.left:
        return raising.left
    script = sys.argv[0] if getattr(sys, "argv", None) else ""
    begun = hasattr(sys.modules.get("__main__"), "__file__")
    if script and script[0] != "-" and not begun and not os.path.exists(script):
        return "can't open file %r" % script, ""
    return ()


def _step_aside():
    """Run the `sitecustomize` behind us, if there is one. Its errors are its own, and `site` reports them as ever."""
    sys.path[:] = [entry for entry in sys.path if entry != _HERE]
    mine = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401 - theirs
    except ImportError as error:
        if getattr(error, "name", str(error).rpartition(" ")[2]) != "sitecustomize":  # 2.7 tells no name
            raise
        if mine is not None:
            sys.modules["sitecustomize"] = mine  # the import system looks for what it has just loaded


if __name__ == "sitecustomize":  # else `late.py` has us arrive in a process that runs already
    arrive()
    _step_aside()
