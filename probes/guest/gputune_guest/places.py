"""Where in the user's code something happens: `train.py:41`."""

import os
import sys

# frames of these packages are never the place that a user would change
LIBRARIES = frozenset(
    [
        "torch",
        "torchvision",
        "torchaudio",
        "torchdata",
        "lightning",
        "pytorch_lightning",
        "lightning_fabric",
        "accelerate",
        "transformers",
        "ignite",
        "fastai",
        "datasets",
        "tqdm",
        "tensorboard",
        "tensorboardX",
        "wandb",
        "mlflow",
        "requests",
        "urllib3",
        "safetensors",
        "deepspeed",
        "webdataset",
        "tensorflow",
        "keras",
        "tf_keras",
    ]
)
_USER, _PACKAGE, _LIBRARY = 1, 2, 3
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_STDLIB = os.path.dirname(os.__file__) + os.sep
_folders = [_HERE, _STDLIB, "<frozen ", "<__array_function__"]
_kinds = {}


def library(module):
    """Take the folder of `module` for a library, wherever it lies."""
    _folders.append(os.path.dirname(os.path.abspath(module.__file__)) + os.sep)


def ours(filename):
    """Return whether a file is one of the guest's own."""
    return filename.startswith(_HERE)


def outside(frame):
    """Return the innermost frame, from `frame` outwards, that is none of the guest's own; None where all are."""
    while frame is not None and ours(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _kind(filename):
    for folder in ("/site-packages/", "/dist-packages/"):
        if folder in filename:
            top = filename.rpartition(folder)[2].partition("/")[0]
            return _LIBRARY if top.partition(".")[0] in LIBRARIES else _PACKAGE
    if filename.startswith(tuple(_folders)):
        return _LIBRARY
    return _USER


def _kind_of(frame):
    filename = frame.f_code.co_filename
    kind = _kinds.get(filename)
    if kind is None:
        kind = _kinds[filename] = _kind(filename)
    return kind


def is_users(frame):
    """Return whether a frame is of the user's own code."""
    return _kind_of(frame) == _USER


def in_library(depth):
    """Return whether it is a framework that is calling, `depth` frames above the caller of this function."""
    frame = outside(sys._getframe(depth + 1))  # several of our wraps may lie around one call
    return frame is not None and _kind_of(frame) == _LIBRARY


def user_frame(frame):
    """Return the innermost frame, from `frame` outwards, that is the user's own.

    Else the innermost of a package that is no library of training; else `frame` itself.
    """
    nearest, second, kinds = frame, None, _kinds
    while frame is not None:
        kind = kinds.get(frame.f_code.co_filename) or _kind_of(frame)  # under a framework there are dozens of frames
        if kind == _USER:
            return frame
        if kind == _PACKAGE and second is None:
            second = frame
        frame = frame.f_back
    return second or nearest


def cells():
    """Return what IPython compiles the cells of a notebook under, to their numbers; nothing where there is none."""
    shells = sys.modules.get("IPython.core.interactiveshell")
    if shells is None:
        return {}
    compiler = getattr(getattr(shells.InteractiveShell, "_instance", None), "compile", None)
    return getattr(compiler, "_filename_map", None) or {}


def name(filename, line):
    """Return `train.py:41`: relative to the working directory where the file lies under it, else the file's name.

    `In[3]:9` in the cell of a notebook, as its reader counts.
    """
    cell = cells().get(filename)
    if cell is not None:
        return "In[%s]:%d" % (cell, line)
    try:
        here = os.getcwd() + os.sep
    except OSError:
        here = os.sep
    if filename.startswith(here) and here != os.sep:
        return "%s:%d" % (filename[len(here) :], line)
    return "%s:%d" % (os.path.basename(filename), line)


def caller(depth):
    """Return (where, file) of the user's code that is calling, `depth` frames above the caller of this function."""
    frame = user_frame(sys._getframe(depth + 1))
    filename = frame.f_code.co_filename
    return name(filename, frame.f_lineno), filename
