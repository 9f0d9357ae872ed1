"""In what precision, where and how the model computes: types, devices, autocast, TF32, threads, looks for NaN.

Looked at once, at the first call of a module with parameters in a sampled training step (forward.py). Autocast may be
entered later than that, inside the model's own forward: its first `with` that is enabled tells, and puts back what it
was called through.
"""

import itertools
import sys

from gputune_guest import patching, ring, spans, wrapping

_looked = False


def look(module):
    """Tell how `module`, which is about to be called, computes. Modules without parameters say nothing."""
    global _looked
    parameters = getattr(module, "parameters", None)
    if _looked or parameters is None:
        return
    _looked = True  # whatever comes of it: parameters without a shape yet are not asked twice
    types, dimensions, devices = set(), set(), set()
    # 200 parameters looked at: enough to meet every type that a model has
    for parameter in itertools.islice(parameters(), 200):
        if parameter.is_floating_point():
            types.add(str(parameter.dtype))
            dimensions.add(parameter.dim())
            devices.add(parameter.device.type)
    if not types:
        _looked = False
        return
    torch = sys.modules["torch"]
    enabled = getattr(torch, "is_autocast_enabled", bool)
    ring.note(
        n="precision",
        types=sorted(types),
        devices=sorted(devices),
        autocast=bool(enabled()),
        tf32=_tf32(torch),
        products=max(dimensions) > 1,
        convolutions=max(dimensions) >= 4,  # dimensions of a convolution's weights, those over text left out
        threads=torch.get_num_threads(),
        anomaly=bool(getattr(torch, "is_anomaly_enabled", bool)()),
    )


def _tf32(torch):
    """Return whether matrix products may round their factors to TF32, None where torch does not say.

    `fp32_precision` came with torch 2.9, which warns, on stderr, whoever asks for the older `allow_tf32`.
    """
    backends = getattr(torch, "backends", None)
    products = getattr(getattr(backends, "cuda", None), "matmul", None)
    if products is None:
        return None
    said = getattr(products, "fp32_precision", None)
    if said is None:
        return bool(getattr(products, "allow_tf32", False))
    return "tf32" in (said, getattr(backends, "fp32_precision", None) if said == "none" else None)


def _hook(module):
    owner = getattr(module, "autocast", None)
    if owner is not None:
        patching.patch(owner, "__enter__", _enter)


def _enter(original):
    def before(args, _kwargs):
        if not spans.silent and getattr(args[0], "_enabled", False):
            ring.note(n="precision", autocast=True)
            patching.take_back(original)

    return wrapping.traced(original, before)


HOOKS = {"torch.amp.autocast_mode": _hook}
