"""Checkpoints: torch's savers, safetensors, and files of numpy and pickle, with their bytes where those are cheap.

Weights are saved as numpy's arrays and by pickle as well. What else is saved so holds the training up in the same way;
only what goes to memory, a pipe or a socket is no file, and what hardly takes time is no pause.
"""

import io
import os
import sys

from gputune_guest import patching, spans
from gputune_guest.words import CHECKPOINT

FILES = (io.BufferedWriter, io.BytesIO, io.BufferedRandom)
PATHS = (str, bytes, os.PathLike)


def _of_file(position, name):
    """Return a function that tells the size of the file in argument `position`, also called `name`."""

    def size(args, kwargs):
        file = kwargs[name] if name in kwargs else args[position]
        if isinstance(file, PATHS):
            return os.stat(file).st_size
        return file.tell() if type(file) in FILES else 0

    return size


def _save(code_of, name, size):
    return spans.timed(CHECKPOINT, code_of + name, marked=True, size=size)


def _to_disk(position):
    """Return a function that tells whether the file in argument `position` has a name, or is one."""

    def wanted(args):
        if len(args) <= position:  # it is called by its keyword
            return True
        try:
            return isinstance(getattr(args[position], "name", args[position]), PATHS)
        except Exception:  # a file of theirs that does not like to be asked
            return False

    return wanted


def _file(code_of, name, position):
    size = _of_file(position, "file")
    # 100_000 ns; arrays and objects may be saved by the thousand
    return spans.timed(CHECKPOINT, code_of + name, 100_000, wanted=_to_disk(position), size=size)


def _torch(module):
    make = _save("torch.", "save", _of_file(1, "f"))
    patching.patch(module, "save", make, sys.modules["torch"])


def _script(module):
    make = _save("torch.jit.", "save", _of_file(1, "f"))
    patching.patch(module, "save", make, sys.modules.get("torch.jit"))


def _numpy(module):
    for name in ("save", "savez", "savez_compressed"):
        patching.patch(module, name, _file("numpy.", name, 0))


def _pickle(module):
    at_home = sys.modules.get("_pickle")  # by which name it is pickled itself
    patching.patch(module, "dump", _file("pickle.", "dump", 1), at_home)


def _distributed(module):
    package = sys.modules.get("torch.distributed.checkpoint")
    for name in ("save", "async_save", "save_state_dict"):
        patching.patch(module, name, _save("torch.distributed.checkpoint.", name, None), package)


def _safetensors(module):
    patching.patch(module, "save_file", _save("safetensors.", "save_file", _of_file(1, "filename")))
    patching.patch(module, "save_model", _save("safetensors.", "save_model", _of_file(1, "filename")))


HOOKS = {
    "torch.serialization": _torch,
    "torch.jit._serialization": _script,
    "torch.distributed.checkpoint.state_dict_saver": _distributed,
    "safetensors.torch": _safetensors,
    "numpy": _numpy,
    "pickle": _pickle,
}
