"""Checkpoints: `torch.save`, `torch.distributed.checkpoint` and safetensors, with their bytes where those are cheap."""

import io
import os
import sys

from gputune_guest import patching, spans
from gputune_guest.words import CHECKPOINT

FILES = (io.BufferedWriter, io.BytesIO, io.BufferedRandom)


def _of_file(position, name):
    """Return a function that tells the size of the file in argument `position`, also called `name`."""

    def size(args, kwargs):
        file = kwargs[name] if name in kwargs else args[position]
        if isinstance(file, (str, bytes, os.PathLike)):
            return os.stat(file).st_size
        return file.tell() if type(file) in FILES else 0

    return size


def _save(code_of, name, size):
    return spans.timed(CHECKPOINT, code_of + name, marked=True, size=size)


def _torch(module):
    make = _save("torch.", "save", _of_file(1, "f"))
    patching.patch(module, "save", make, sys.modules["torch"])


def _distributed(module):
    package = sys.modules.get("torch.distributed.checkpoint")
    for name in ("save", "async_save", "save_state_dict"):
        patching.patch(module, name, _save("torch.distributed.checkpoint.", name, None), package)


def _safetensors(module):
    patching.patch(module, "save_file", _save("safetensors.", "save_file", _of_file(1, "filename")))
    patching.patch(module, "save_model", _save("safetensors.", "save_model", _of_file(1, "filename")))


HOOKS = {
    "torch.serialization": _torch,
    "torch.distributed.checkpoint.state_dict_saver": _distributed,
    "safetensors.torch": _safetensors,
}
