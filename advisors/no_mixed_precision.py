"""The device has tensor cores, and they do nothing: everything is computed in 32 bits.

What it sees: the share of the time in which tensor cores worked, beside that of the multiprocessors, from the device's
performance counters (GPM: Hopper and later); its compute capability; how busy it was.

Why it matters: in 16 bits matrix products run on tensor cores, several times as fast as in 32 bits without them, and
all other kernels move half of the bytes.

What to do: `with torch.autocast("cuda", dtype=torch.bfloat16):` around forward pass and loss (with float16 also a
`torch.amp.GradScaler`). If it has to stay 32 bits: `torch.set_float32_matmul_precision("high")` lets matrix products
round their factors to TF32.

When it is wrong: when the work is no matrix products (simulations, sparse or recurrent scalar work), or when it needs
the digits. Compare the loss over some hundred steps.

Sources: Micikevicius et al., "Mixed Precision Training", 2018; "Introducing native PyTorch automatic mixed precision"
(pytorch.org, 2020: x1.5 to x5.5 on V100, x1.3 to x2.5 on A100); PyTorch's plugin for TensorBoard, which warned of
unused tensor cores from compute capability 7 on.
"""

from collections.abc import Iterator

from gputune.features import Device, Features
from gputune.finding import Finding, Speedup
from gputune.prediction import ERROR

FIRST = 7.0  # compute capability from which on there are tensor cores
WITHOUT = ("GTX 16",)  # of that capability, but without them
UNUSED = 0.02  # of the time the device is busy: with half precision anywhere, tensor cores work more than this
BUSY = 0.5  # of the time: a device that idles more has another ailment first
FILLED = 0.3  # of the multiprocessors while it is busy: with fewer, kernels are small
FASTER = (1.25, 2.0, 4.0)  # times, of the device's part of a step


def advise(run: Features) -> Iterator[Finding]:
    for device in run.devices:
        if device.capability is None or device.capability < FIRST or any(w in device.name for w in WITHOUT):
            continue
        if device.busy is None or device.sm_active is None or device.tensor_active is None:
            continue
        working = device.busy >= BUSY and device.sm_active >= FILLED * device.busy
        if working and device.tensor_active <= UNUSED * device.busy:
            yield _finding(device, min(1.0, device.busy), device.sm_active, device.tensor_active)


def _finding(device: Device, busy: float, active: float, tensor: float) -> Finding:
    low, likely, high = (1 / (1 - busy * (1 - 1 / times)) for times in FASTER)
    speedup = Speedup(low=low * (1 - ERROR), likely=likely, high=high * (1 + ERROR))
    return Finding(
        id="no-mixed-precision",
        says=(
            f"GPU {device.index} ({device.name}) is busy {busy:.0%} of the time, its multiprocessors are active "
            f"{active:.0%}, its tensor cores {tensor:.1%}: everything is computed in 32 bits"
        ),
        do='run forward pass and loss under torch.autocast("cuda", dtype=torch.bfloat16), and compare the loss',
        share_lost=1 - 1 / likely,
        speedup=speedup,
        basis=f"the busy time x{FASTER[0]:g} to x{FASTER[2]:g} as fast, as published; the rest as it is",
        falsified_by=f"samples/s under autocast below x{speedup.low:.2f} of this run's",
        effect="changes-learning",
        evidence={
            "busy": busy,
            "sm_active": active,
            "tensor_active": tensor,
            "dram_active": device.dram_active or 0.0,
            "capability": device.capability or 0.0,
        },
    )
