"""What went wrong with CUDA itself: a device that failed in a step, and one that a training could not use."""

from gputune.core.sample import LOST
from gputune.features import Failure, Features, Unused
from gputune.verdict.document import FailureRow, UnusedRow, alike

HIDDEN = ("", "-1")  # CUDA_VISIBLE_DEVICES that name none


def failed(run: Features) -> list[FailureRow]:
    """Return the last error of each process, those first that ended one."""
    return [_failure(each, run) for each in sorted(run.failures, key=lambda each: not each.ended)]


def _failure(found: Failure, run: Features) -> FailureRow:
    lost = {row.what.removeprefix("device ") for row in run.lacking.get("nvml", ()) if row.why.startswith(LOST)}
    troubled = lost | {device.index for device in run.devices if device.xids}
    gpu = _whose(found, troubled, run)
    xids = sorted({number for device in run.devices if device.index == gpu for number in device.xids})
    return alike(FailureRow, found, gpu=gpu, lost=gpu in lost, xids=xids)


def _whose(found: Failure, troubled: set[str], run: Features) -> str:
    """Return the device that failed: the only one in trouble, unless it is another process's; else the process's own.

    A process is seen to use a device when it is asked for memory, which is seldom: it may use more of them.
    """
    if found.gpu in troubled or len(troubled) != 1:
        return found.gpu
    (gpu,) = troubled
    others = [process for process in run.processes if process.pid != found.pid]
    elsewhere = any(each.index == gpu for process in others for each in process.allocators)
    return found.gpu if found.gpu and elsewhere else gpu


def unused(run: Features) -> list[UnusedRow]:
    """Return the processes that trained without a device although there was one, or something is known to hide it."""
    rows = [(each, _reason(each, run)) for each in run.unused]
    return [
        alike(
            UnusedRow,
            each,
            reason=reason,
            driver=f"{each.driver // 1000}.{each.driver % 1000 // 10}" if each.driver else "",
        )
        for each, reason in rows
        if reason
    ]


def _reason(found: Unused, run: Features) -> str:
    major = found.built.partition(".")[0]
    if found.forked:
        return "forked"
    if found.visible is not None and (found.visible.strip() in HIDDEN or not run.devices):
        return "hidden"
    if found.driver and major.isdigit() and found.driver // 1000 < int(major):  # minor ones of a major run all its CUDA
        return "driver"
    return "script" if run.devices else ""
