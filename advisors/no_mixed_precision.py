"""The device has tensor cores, and everything is computed in 32 bits: past them, or in TF32 at half of their rate.

What it sees: the share of the time in which tensor cores worked, beside that of the multiprocessors, from the
device's performance counters (GPM: Hopper and later); its compute capability; how busy it was. On devices without
such counters, and where tensor cores work: the types of the model's parameters, whether autocast was ever entered, and
whether TF32 is allowed, as the guest saw it.

Why it matters: in 16 bits matrix products run on tensor cores, several times as fast as in 32 bits without them, and
all other kernels move half of the bytes. How much a model gains rests on the share of its products, which no counter
tells: what is promised is the least, and what others have gained is said beside it.

What to do: `with torch.autocast("cuda", dtype=torch.bfloat16):` around forward pass and loss (with float16 also a
`torch.amp.GradScaler`; before compute capability 8 only that runs on tensor cores). If it has to stay 32 bits:
`torch.set_float32_matmul_precision("high")` lets matrix products round their factors to TF32.

When it is wrong: when wrappers cast by themselves (sharded data parallel does: of jobs of several ranks only the
counters are believed); when the work is no matrix products (simulations, sparse or recurrent scalar work), or when it
needs the digits. Compare the loss over some hundred steps.

Sources: Micikevicius et al., "Mixed Precision Training", 2018; "Introducing native PyTorch automatic mixed precision"
(pytorch.org, 2020: x1.5 to x5.5 on V100, x1.3 to x2.5 on A100); PyTorch's plugin for TensorBoard, which warned of
unused tensor cores from compute capability 7 on.
"""

from collections.abc import Iterator

from gputune.core.finding import Finding, Speedup
from gputune.features import Device, Features, Process
from gputune.model.prediction import ERROR
from gputune.model.workload import busy_of

FIRST = 7.0  # compute capability from which on there are tensor cores
TF32 = 8.0  # and from here on convolutions use them in 32 bits as well, unless they are told not to
WITHOUT = ("GTX 16",)  # of that capability, but without them
UNUSED = 0.02  # of the time the device is busy: with half precision anywhere, tensor cores work more than this
BUSY = 0.5  # of the time: a device that idles more has another cause first
FILLED = 0.3  # of the multiprocessors while it is busy: with fewer, kernels are small
SURELY = 0.7  # busy share: where no counter tells, the device's work must be what sets the pace
TOLD = "the model's weights have 32 bits, nothing runs under autocast"
FASTER = (1.25, 2.0, 4.0)  # times, of the device's part of a step


def advise(run: Features) -> Iterator[Finding]:
    if any(process.precision.half or _without_gain(process) for process in run.processes):
        return
    found = [_finding(run, device, seen) for device in run.devices if (seen := _seen(run, device))]
    yield from sorted(found, key=lambda f: -f.speedup.likely)[:1]  # all devices run the same code


def _without_gain(process: Process) -> bool:
    """Return whether 16 bits are no cure, as was told: the digits of float64 are wanted, or nothing has matrices.

    A torch that is built for the CPU casts nothing on a device: what of the job computes there is another library's.
    What shards its weights over ranks may hold each layer's as one flat vector: then its shape says nothing.
    """
    seen = process.precision
    flat = bool(seen.types) and not seen.products
    return process.built == "" or "torch.float64" in seen.types or (flat and (process.world_size or 1) == 1)


def _seen(run: Features, device: Device) -> str:
    """Return by what it shows that a device with tensor cores computes in 32 bits; nothing if it does not, or may not.

    Tensor cores that work may do so in TF32: then it takes the guest's word that nothing there has 16 bits.
    """
    if device.capability is None or device.capability < FIRST or any(w in device.name for w in WITHOUT):
        return ""
    busy, active, tensor = device.busy or 0.0, device.sm_active, device.tensor_active
    if active is None or tensor is None:
        told = busy >= SURELY and _all_single(run) and not _may_round(run, device.capability)
        return f"{TOLD}: everything is computed in 32 bits, past its tensor cores" if told else ""
    if busy < BUSY or active < FILLED * busy:
        return ""
    if tensor <= UNUSED * busy:
        seen = f"its multiprocessors are active {active:.0%}, its tensor cores {tensor:.1%}"
        return f"{seen}: everything is computed in 32 bits, past its tensor cores"
    there = all(any(kind != "cpu" for kind in process.precision.devices) for process in run.processes)
    told = busy >= SURELY and device.capability >= TF32 and there and _all_single(run)
    return f"{TOLD}: its tensor cores compute in TF32, at half of what they do in 16 bits" if told else ""


def _all_single(run: Features) -> bool:
    """Return whether it is sure that the trainings compute products, and all in 32 bits."""
    told = [(process, process.precision) for process in run.processes]
    return bool(told) and all((p.world_size or 1) == 1 and seen.single and seen.products for p, seen in told)


def _may_round(run: Features, capability: float) -> bool:
    """Return whether products may run on tensor cores in 32 bits: whoever rounds to TF32 does."""
    each = [process.precision for process in run.processes]
    return any(seen.tf32 is not False or (seen.convolutions and capability >= TF32) for seen in each)


def _half(device: Device) -> str:
    """Return what a device has tensor cores for, and what that takes: older ones have none for bfloat16."""
    old = device.capability is not None and device.capability < TF32
    return "float16) with a torch.amp.GradScaler" if old else "bfloat16)"


def _finding(run: Features, device: Device, seen: str) -> Finding:
    busy = min(1.0, busy_of(run, device) or 0.0)
    low, likely, high = (1 / (1 - busy * (1 - 1 / times)) for times in FASTER)
    counted = {
        "sm_active": device.sm_active,
        "tensor_active": device.tensor_active,
        "dram_active": device.dram_active,
    }
    speedup = Speedup(low=low * (1 - ERROR), likely=likely, high=high * (1 + ERROR), at_least=True)
    return Finding(
        id="no-mixed-precision",
        says=f"GPU {device.index} ({device.name}) is busy {busy:.0%} of the time, {seen}",
        do=f'run forward pass and loss under torch.autocast("cuda", dtype=torch.{_half(device)}, and compare the loss',
        share_lost=1 - 1 / likely,
        speedup=speedup,
        basis=f"the busy time x{FASTER[0]:g} to x{FASTER[2]:g} as fast, as published; the rest as it is",
        falsified_by=f"samples/s under autocast below x{speedup.low:.2f} of this run's",
        effect="changes-rounding",
        evidence={
            "busy": busy,
            "capability": device.capability or 0.0,
            **{name: value for name, value in counted.items() if value is not None},
        },
    )
