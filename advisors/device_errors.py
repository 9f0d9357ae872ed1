"""The device or its driver reported errors while the run went on.

What it sees: Xid events, as the driver reports them, and the count of uncorrected memory errors, against the count at
the first reading of the run.

Why it matters: after a memory error that was not corrected, numbers may be wrong; after some of the others the device
answers nobody until it is reset, and the run dies with it.

What to do: for errors of the hardware save a checkpoint, go on with another device, and have this one looked at
(`nvidia-smi -q -d ECC,ROW_REMAPPER`, `dcgmi diag -r 3`, `dmesg`). Errors 13, 31, 43, 68 and 69 are mostly the
program's: an index out of bounds in a kernel. `CUDA_LAUNCH_BLOCKING=1` shows the call, compute-sanitizer the address.

When it is wrong: when another job on the same device made the error: Xids are reported of the device, not of a
process. Errors that follow from somebody's being killed (45) are left out.

Sources: NVIDIA, "XID Errors", <https://docs.nvidia.com/deploy/xid-errors/>; NVML API reference,
nvmlDeviceGetTotalEccErrors.
"""

from collections.abc import Iterator

from gputune.core.finding import NO_CHANGE, Finding
from gputune.features import Device, Features

PROGRAM = {  # what a program can do to a healthy device
    13: "graphics engine exception",
    31: "memory page fault",
    43: "stopped processing",
    68: "video decoder exception",
    69: "graphics engine class error",
}
HARDWARE = {
    32: "invalid or corrupted push buffer",
    38: "driver firmware error",
    48: "double-bit memory error",
    61: "internal micro-controller breakpoint",
    62: "internal micro-controller halt",
    63: "a row of memory was remapped",
    64: "a row of memory could not be remapped",
    74: "NVLink error",
    79: "the device has fallen off the bus",
    92: "many single-bit memory errors",
    94: "contained memory error",
    95: "uncontained memory error",
    119: "the device's system processor does not answer",
    120: "error of the device's system processor",
}
ASIDE = frozenset({45})  # preemptive clean-up: what comes after another error, or when a process was killed


def advise(run: Features) -> Iterator[Finding]:
    for device in run.devices:
        xids = {number: count for number, count in device.xids.items() if number not in ASIDE}
        if xids or device.ecc:
            yield _finding(run, device, xids)


def _finding(run: Features, device: Device, xids: dict[int, int]) -> Finding:
    told = [_xid(number, count) for number, count in sorted(xids.items())]
    if device.ecc:
        told.append(f"{device.ecc} uncorrected memory error{'s' if device.ecc > 1 else ''}")
    programs = not device.ecc and all(number in PROGRAM for number in xids)
    died = run.exit_code not in {None, 0}
    return Finding(
        id="device-errors",
        says=f"GPU {device.index} ({device.name}) reported {', '.join(told)} during the run",
        risk=_risk(run, programs=programs, died=died),
        due=None if programs and not died else 0.0,
        do=(
            "look for an index out of bounds: run once with CUDA_LAUNCH_BLOCKING=1, or under compute-sanitizer"
            if programs
            else "save a checkpoint, go on with another device, and have this one looked at (dmesg, dcgmi diag -r 3)"
        ),
        share_lost=0.0,
        speedup=NO_CHANGE,
        basis="Xid events of the driver, and the rise of its count of uncorrected memory errors",
        falsified_by="the same errors on another device",
        effect="identical",
        evidence={"uncorrected_errors": device.ecc or 0, **{f"xid_{n}": count for n, count in sorted(xids.items())}},
    )


def _xid(number: int, count: int) -> str:
    what = PROGRAM.get(number) or HARDWARE.get(number)
    times = f" {count} times" if count > 1 else ""
    return f"Xid {number}{f' ({what})' if what else ''}{times}"


def _risk(run: Features, *, programs: bool, died: bool) -> str:
    if died:
        return f"the run ended with status {run.exit_code}"
    if programs:
        return "an error of this kind ends the program that makes it, or another one on the device"
    return "what the device computes is in doubt, and the run may end at any time"
