"""What torch does before a step's first call of the model: with the weights, and with what lies on the device.

In a script that gets its batches without a DataLoader, the time from the optimizer's step on makes the next batch, or
it is work on the weights (a moving average of them, clipping, a look at their gradients), which nobody could do ahead.
And with a device, in any script, it may be kernels that the step queues itself: a batch augmented where it is trained.
In some of the first sampled steps torch itself tells which: a TorchFunctionMode, its way to stand between a script and
its functions, sees what each is called with. A call is on the weights if it is handed the memory of a parameter, or of
a copy that was made or changed with one before; else on the device if all that it is handed lies there. What comes
between two calls of one kind goes with them.

The mode is put in only where no other one is, for modes are a stack and theirs would be taken for ours, on the training
thread, until a module is called, or the step is over. Nothing of theirs is kept but addresses and weak references.
"""

import _thread
import sys
import weakref

from gputune_guest import modes, ring, wrapping

now = ring.now

FIRST, LOOKS = 3, 24  # windows that are let pass, and then looked at: an average every ten steps is met twice
NEVER = -(1 << 62)  # windows until the next one is looked at, where looking has failed
MOST = 1 << 14  # copies whose addresses are remembered
WEIGHTS, DEVICE = 1, 2  # what a call is on
HOST = frozenset(["cpu", "meta"])  # types of device whose kernels are no queue's
CHANGES = frozenset(["__setitem__", "__set__", "__iadd__", "__isub__", "__imul__", "__itruediv__"])  # the first of them

_windows = 0
_mode = None  # in place, or None
_thread_of = 0  # the one on which it is
_made = None  # the mode, once made
_weights = frozenset()  # addresses of the parameters
_copies = {}  # address of a copy to a weak reference to the tensor there, or None: it was changed in place
_spent = _queued = _own = 0  # ns in this window on the weights, on what else lies on the device, and in looking
_since = 0  # when the last call of either kind was over, if it was the last of all
_last = None  # which kind it was


def begin(optimizer=None):
    """Look at what comes before the next call of a module, if that is due.

    With an `optimizer` whose step is just over, also at what is done to its weights. Without one only where there is a
    device.
    """
    global _windows, _weights, _spent, _queued, _own, _since, _mode, _thread_of
    _windows += 1
    if not FIRST < _windows <= FIRST + LOOKS:
        return
    torch, core = sys.modules["torch"], modes.free()
    if core is None:  # an old torch, or theirs is there
        return
    try:
        _weights = frozenset(_addresses(optimizer) if optimizer is not None else ())
        wanted = _weights or (optimizer is None and torch.cuda.is_initialized())
    except Exception:  # parameters that lie nowhere, or in pieces elsewhere
        return
    if wanted:
        _spent = _queued = _own = _since = 0
        _mode, _thread_of = _made or _make(), _thread.get_ident()
        core._push_on_torch_function_stack(_mode)


def _addresses(optimizer):
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            address = parameter.data_ptr()
            if address:
                yield address


def end():
    """Stop looking; return the ns on the weights, on what else lies on the device, and in looking; None without."""
    global _mode
    if _mode is None or _thread.get_ident() != _thread_of or not modes.took_out(_mode):
        return None
    _mode = None
    return (_spent, _queued, _own) if _windows > FIRST + 1 else None  # copies are known from the first window on


def _make():
    global _made
    torch = sys.modules["torch"]
    plain = frozenset([torch.Tensor, torch.nn.Parameter])  # a subclass may answer for itself, or have no memory

    class GputuneLooks(sys.modules["torch.overrides"].TorchFunctionMode):
        pass

    def before(given, _kwargs):
        return given, now()

    def after(begun, result, error):
        (mode, func, _types, args), t0 = begun[0][:4], begun[1]
        if error is None and _mode is mode and _windows > NEVER:
            try:
                _called(plain, func, args, result, (t0, now()))
            except Exception as failure:
                _give_up(failure)

    GputuneLooks.__torch_function__ = wrapping.around(modes.through, before, after, binds=True)
    _made = GputuneLooks()
    return _made


def _give_up(error):
    """Look no more: what these tensors are, nobody here knows."""
    global _windows
    _windows = NEVER
    ring.failed(error)


def _called(plain, func, args, result, times):
    global _spent, _queued, _own, _since, _last
    t0, t1 = times
    touched = _touched(plain, args)
    kind = WEIGHTS if touched is not None else DEVICE if _on_device(plain, args, result) else None
    if kind is None:
        _since = 0
    else:
        took = t1 - (_since if _since and _last == kind else t0)
        if kind == WEIGHTS:
            _spent += took
            _keep(plain, func, args, result, touched)
        else:
            _queued += took
        _last, _since = kind, now()
    _own += now() - t1


def _keep(plain, func, args, result, touched):
    """Remember what a call on the weights has made or changed: copies of them."""
    if len(_copies) > MOST:
        _copies.clear()
    if _changes(getattr(func, "__name__", "")):
        for tensor in args[0] if isinstance(args[0], (list, tuple)) else args[:1]:
            if type(tensor) in plain:
                _copies[tensor.data_ptr()] = None
    elif type(result) in plain and result.numel() == touched.numel():
        _copies[result.data_ptr()] = weakref.ref(result)


def _changes(name):
    """Return whether a function of this name changes its first argument: `add_` does, `__add__` does not."""
    return name in CHANGES or (name.endswith("_") and not name.endswith("__"))


def _tensors(plain, args):
    """Return the tensors among the first arguments, of a list the first."""
    # 4 arguments of a call that are looked at
    firsts = [value[0] if isinstance(value, (list, tuple)) and value else value for value in args[:4]]
    return [value for value in firsts if type(value) in plain]


def _touched(plain, args):
    """Return the first argument that lies where weights do, or a copy of them; None without any."""
    for tensor in _tensors(plain, args) if _weights else ():
        address = tensor.data_ptr()
        if address in _weights or _is_copy(address):
            return tensor
    return None


def _on_device(plain, args, result):
    """Return whether a call queued work for a device, and no copy to it: all that it was handed lies there."""
    handed = _tensors(plain, args) or _tensors(plain, (result,))
    return bool(handed) and all(tensor.device.type not in HOST for tensor in handed)


def _is_copy(address):
    if address not in _copies:
        return False
    reference = _copies[address]
    if reference is None or reference() is not None:
        return True
    del _copies[address]  # somebody else's memory by now
    return False


def _forked():
    global _windows
    end()
    _windows = 0
    _copies.clear()


ring.at_farewell(end)
wrapping.after_fork(_forked)
