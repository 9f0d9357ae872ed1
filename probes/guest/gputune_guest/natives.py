"""What opens files without Python: where torch, safetensors and TensorBoard are told a path, they are told another one.

`write_sandbox.py` says which: the one under which the file lies in this trial. Only functions that are named here are
known.
"""

import functools
import os

from gputune_guest import hook, wrapping

WRITES = "writes"
KEEPS = "keeps"  # writes into what is there
READS = "reads"
FOLDER = "folder"  # writes into a folder
SHARES = "shares"  # keeps where it is told to share what is mapped, by the argument behind the path, and reads else
# (module, function, place and name of the path, what it does there)
NATIVE = (
    ("torch.serialization", "save", 1, "f", WRITES),
    ("torch.serialization", "load", 0, "f", READS),
    ("torch", "from_file", 0, "filename", SHARES),
    ("torch.storage", "UntypedStorage.from_file", 0, "filename", SHARES),
    ("torch.jit._serialization", "save", 1, "f", WRITES),
    ("torch.jit._serialization", "save_jit_module_to_flatbuffer", 1, "f", WRITES),
    ("torch.jit._serialization", "load", 0, "f", READS),
    ("torch.jit._script", "RecursiveScriptModule.save", 1, "f", WRITES),
    ("torch.jit._script", "RecursiveScriptModule._save_for_lite_interpreter", 1, "f", WRITES),
    ("torch.jit._script", "ScriptFunction.save", 1, "filename", WRITES),
    ("torch.export.pt2_archive._package", "PT2ArchiveWriter.__init__", 1, "archive_path_or_buffer", WRITES),
    ("torch.export.pt2_archive._package", "PT2ArchiveReader.__init__", 1, "archive_path_or_buffer", READS),
    ("torch.package.package_exporter", "PackageExporter.__init__", 1, "f", WRITES),
    ("torch.package.package_importer", "PackageImporter.__init__", 1, "file_or_buffer", READS),
    ("torch.autograd.profiler", "profile.export_chrome_trace", 1, "path", WRITES),
    ("torch.profiler.profiler", "ExecutionTraceObserver.register_callback", 1, "output_file_path", WRITES),
    ("safetensors.torch", "save_file", 1, "filename", WRITES),
    ("safetensors.torch", "load_file", 0, "filename", READS),
    ("torch.utils.tensorboard.writer", "FileWriter.__init__", 1, "log_dir", FOLDER),
    ("tensorboardX.writer", "FileWriter.__init__", 1, "logdir", FOLDER),
    ("subprocess", "Popen.__init__", 10, "cwd", READS),
)


def begin(finder, placed):
    """Have them called with `placed(path, what it does there, its name)` as soon as they are there."""
    for module in dict.fromkeys(row[0] for row in NATIVE):
        hook.when_there(finder, module, functools.partial(_native, placed=placed))


def _native(module, placed):
    for name, function, place, key, does in NATIVE:
        if name != module.__name__:
            continue
        inside, _, last = function.rpartition(".")
        holder = getattr(module, inside, None) if inside else module
        original = None if holder is None else getattr(holder, last, None)
        if original is not None:
            ours = _with_path(original, place, key, does, functools.partial(placed, what=name + "." + function))
            setattr(holder, last, staticmethod(ours) if inside and not place else ours)


def _with_path(original, place, key, does, placed):
    """Have a function called with another path in its argument number `place`, also called `key`."""

    def elsewhere(original, *args, **kwargs):  # an error is theirs to be told: the file is there, or no file at all
        given = kwargs.get(key, args[place] if len(args) > place else None)
        if isinstance(given, (str, bytes, os.PathLike)):
            there = placed(given, _does(does, place, args, kwargs))
            if key in kwargs:
                kwargs[key] = there
            else:
                args = (*args[:place], there, *args[place + 1 :])
        return original(*args, **kwargs)

    return wrapping.instead(original, elsewhere, to_the_end=True)


def _does(does, place, args, kwargs):
    if does != SHARES:
        return does
    return KEEPS if kwargs.get("shared", args[place + 1] if len(args) > place + 1 else False) else READS
