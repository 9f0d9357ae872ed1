"""What the host asks of a training while it runs: the file named in `GPUTUNE_STEER`, whose layout is docs/steering.md.

To see that there is nothing new is to compare eight bytes of a mapping, which is no system call. An order that is being
written is seen at a later look.
"""

import json
import mmap
import os
import struct
import zlib
from collections import deque

from gputune_guest import ring

HEADER = struct.Struct("<QII")  # number of the order, length of its text, CRC-32 of number, length and text
DOES = ("serve", "replay", "end")
SETTINGS = ("num_workers", "prefetch_factor", "pin_memory", "persistent_workers")
FLAGS = ("pin_memory", "persistent_workers")
LEAST = {"num_workers": 0}  # of the others: 1


class Order:
    """One order. `served` and `refused` hold the places of the loaders for which it was answered so."""

    __slots__ = ("asked", "do", "left", "pin", "refused", "seq", "served", "where")

    def __init__(self, seq, told):
        self.seq = seq
        self.do = told["do"]
        if self.do not in DOES:
            raise ValueError("it asks for %r" % (self.do,))
        self.where = told.get("where") or None
        self.left = None if told.get("batches") is None else _number("batches", told["batches"], 1)
        self.asked = _checked(told.get("set") or {}) if self.do == "serve" else {}
        self.pin = told.get("pin", False)  # of a replay
        if self.do == "replay" and self.left is None:
            raise ValueError("it does not say how many batches")
        if not isinstance(self.pin, bool):
            raise ValueError("pin: %r is neither true nor false" % (self.pin,))
        self.served, self.refused = set(), set()

    def means(self, where):
        """Return whether the loader built at `where` is meant."""
        return self.where is None or self.where == where

    def over(self, own):
        """Return the settings of a loader that its script has with `own`; the meaningless ones are None or False."""
        settings = dict(own, **self.asked)
        if not settings["num_workers"]:
            settings.update(prefetch_factor=None, persistent_workers=False)
        elif settings["prefetch_factor"] is None:
            settings["prefetch_factor"] = 2  # what torch takes then
        return settings


def _checked(settings):
    for name, value in settings.items():
        if name not in SETTINGS:
            raise ValueError("%r is no setting that can change while a loader is iterated" % (name,))
        if name in FLAGS:
            if not isinstance(value, bool):
                raise ValueError("%s: %r is neither true nor false" % (name, value))
        elif not (name == "prefetch_factor" and value is None):
            _number(name, value, LEAST.get(name, 1))
    return dict(settings)


def _number(name, value, least):
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError("%s: %r is no such number" % (name, value))
    return value


class Orders:
    """The orders that came, read from the file at `path`: those that stand, and how many there were (`turn`)."""

    def __init__(self, path, live):
        self.live = live  # somebody's real training, of which every sample counts, and no trial
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            self._map = mmap.mmap(fd, os.fstat(fd).st_size, access=mmap.ACCESS_READ)
        finally:
            os.close(fd)
        if len(self._map) < HEADER.size:
            raise ValueError("it is too short")
        self.word = memoryview(self._map)[:8].cast("Q")
        self.seen = 0  # the word that was there at the last look that succeeded
        self.turn = 0
        self.once = None  # the last order to replay or to end
        self.last = None  # the last order of any kind
        # 64 orders that are remembered, for those that come after them may be refused
        self._standing = deque(maxlen=64)  # orders to serve: the last one that means a loader, and was not refused

    def look(self):
        """Take the order that is there, if it is a new one and whole."""
        word = self.word[0]
        if word == self.seen:
            return
        seq, size, crc = HEADER.unpack_from(self._map)
        text = self._map[HEADER.size : HEADER.size + size]
        if len(text) != size or self.word[0] != word or check(seq, size, text) != crc:
            return
        self.seen = word
        try:
            order = Order(seq, json.loads(text.decode("utf-8")))
        except Exception as error:  # no object, no such order
            ring.note(n="steer", seq=seq, state="refused", why="no order that is known: %s" % str(error)[:200])
            return
        self.turn += 1
        self.last = order
        if order.do == "serve":
            self._standing.append(order)
        else:
            self.once = order

    def standing(self, where):
        """Return the order that the loader built at `where` is to be served by, or None: as its script has it."""
        for order in reversed(self._standing):
            if order.means(where) and where not in order.refused:
                return order
        return None

    def refuse(self, where):
        """Have the loader built at `where` be as its script has it; return the order that it was served by."""
        order = self.standing(where)
        for each in self._standing:
            each.refused.add(where)
        return order

    def count(self, order):
        """Count a batch for an order of so many batches; return whether they are over, and the order is forgotten."""
        order.left -= 1
        if order.left > 0:
            return False
        if order in self._standing:
            self._standing.remove(order)
            self.turn += 1
        return True


def check(seq, size, text):
    """Return the CRC-32 that belongs to an order."""
    return zlib.crc32(text, zlib.crc32(struct.pack("<QI", seq, size)))
