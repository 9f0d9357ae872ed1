"""Logging: handlers, `print`, progress bars, and files forced to the disk.

A loop that writes a line a sample spends more on making its lines than in handlers, and none of them is long: lines
that follow each other closely are one span, and what syncs each of them with the disk goes with them.
"""

from gputune_guest import patching, spans
from gputune_guest.words import LOGGING


def _hook_logging(module):
    patching.patch(module.Handler, "handle", spans.timed(LOGGING, "logging", least=spans.SHORT, joined=True))


def _hook_print(module):
    patching.patch(module, "print", spans.timed(LOGGING, "print", least=spans.SHORT, joined=True))


def _hook_os(module):
    for name in ("fsync", "fdatasync"):
        patching.patch(module, name, spans.timed(LOGGING, "os." + name, least=spans.SHORT, joined=True))


def _hook_tqdm(module):
    patching.patch(module.tqdm, "refresh", spans.timed(LOGGING, "tqdm", least=spans.SHORT, joined=True))


HOOKS = {"logging": _hook_logging, "builtins": _hook_print, "os": _hook_os, "tqdm.std": _hook_tqdm}
