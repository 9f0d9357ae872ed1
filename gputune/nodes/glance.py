"""Machines at one glance, a line a device, as gpustat prints them, with what runs there waits for and could gain.

A node without a device has a line for its CPUs. Percent and GiB appear here, where a person reads them.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gputune.core.figures import number
from gputune.core.hygiene import clean
from gputune.feeds.rows import DeviceRow, Node, RunRow, TaskRow

GIB = 2**30
NAME, COMMAND, USER = 30, 120, 24  # characters
HOT, BUSY, FULL, WAITS = 85.0, 0.8, 0.95, 0.1  # °C, and shares from which on a figure has a colour
UNKNOWN = "-"
COLOURS = {"name": "1", "good": "32", "warn": "33", "bad": "31", "memory": "35", "device": "36", "dim": "2"}


@dataclass(frozen=True, slots=True)
class ProcessColumns:
    """What is said of a process beside its memory: its command, its user (alone where nothing is asked), its pid."""

    command: bool = False
    user: bool = False
    pid: bool = False
    colour: bool = False


def render(nodes: Iterable[Node], runs: Iterable[RunRow], wishes: ProcessColumns = ProcessColumns()) -> str:
    """Return all of them in lines, without a newline at the end."""
    known = {run.id: run for run in runs if run.state == "live"}
    return "\n".join(line for node in nodes for line in _node(node, known, wishes))


def _node(node: Node, runs: Mapping[str, RunRow], wishes: ProcessColumns) -> list[str]:
    lines = [_head(node, wishes)]
    if node.devices:
        lines += [_device(device, node, runs, wishes) for device in node.devices]
    elif node.cpus is not None:
        lines.append(_cpus(node, runs, wishes))
    why = node.unavailable.get("nvml", "") if not node.devices else ""
    return lines + ([_painted(f"    no device: {clean(why)}", "dim", wishes)] if why else [])


def _head(node: Node, wishes: ProcessColumns) -> str:
    at = time.strftime("%a %b %d %H:%M:%S %Y", time.localtime(node.seen or time.time()))
    link = "" if node.link in {"local", "up"} else f"  {node.link}: {clean(node.why)}"
    facts = [_painted(clean(node.name, NAME), "name", wishes), at]
    if node.devices and node.cpus is not None:
        facts.append(
            f"CPUs {_plain(node.cpu)} of {_plain(node.cpus)}, memory {_of(node.memory_used, node.memory_total)}"
        )
    if node.wait is not None:
        facts.append(_painted(f"waits {_share(node.wait)}", "bad" if node.wait >= WAITS else "good", wishes))
    facts += [f"{number(node.rate)} samples/s"] if node.rate is not None else []
    return "  ".join(facts) + _painted(link, "bad", wishes)


def _with(line: str, tasks: Sequence[TaskRow], runs: Mapping[str, RunRow], wishes: ProcessColumns) -> str:
    """Return a line with its processes: behind it, or a line each below it, where what was typed is told of them."""
    told = [_task(task, runs, wishes) for task in tasks]
    if wishes.command:
        return "\n".join([line, *(f"      {each}" for each in told)])
    return " | ".join([line, "  ".join(told)]) if told else line


def _device(device: DeviceRow, node: Node, runs: Mapping[str, RunRow], wishes: ProcessColumns) -> str:
    filled = device.memory_used / device.memory_total if device.memory_used and device.memory_total else 0.0
    degrees = UNKNOWN if device.temperature is None else f"{device.temperature:.0f}"
    power = UNKNOWN if device.power is None else f"{device.power:.0f}"
    limit = "" if device.power_limit is None else f" / {device.power_limit:.0f}"
    cells = [
        _painted(f"[{clean(device.index, 8)}]", "device", wishes) + f" {clean(device.name, NAME) or 'device':<16}",
        _painted(f"{degrees:>3}°C", "bad" if (device.temperature or 0) >= HOT else "", wishes)
        + ", "
        + _painted(f"{_share(device.busy):>4}", "good" if (device.busy or 0) >= BUSY else "", wishes),
        _painted(f"{_of(device.memory_used, device.memory_total):>17}", "bad" if filled >= FULL else "memory", wishes),
        f"{power:>3}{limit} W" + (_painted(f" {clean(device.held, NAME)}", "warn", wishes) if device.held else ""),
    ]
    on = [task for task in node.tasks if device.index in task.device.split(",")]
    return _with(" | ".join(cells), on, runs, wishes)


def _cpus(node: Node, runs: Mapping[str, RunRow], wishes: ProcessColumns) -> str:
    used = node.cpu / node.cpus if node.cpu is not None and node.cpus else None
    mine = [task for task in node.tasks if task.run]
    # On a node without a device 4 processes of nobody's run are named
    others = [task for task in node.tasks if not task.run and (task.cpu or 0) >= 0.5][:4]
    cells = [
        f"CPUs {_plain(node.cpu)} of {_plain(node.cpus)}, {_share(used):>4}",
        f"memory {_of(node.memory_used, node.memory_total)}",
        f"{_share(node.iowait)} idle for storage",
    ]
    shown = [*(task for task in mine if task.role == "main"), *others]
    return _with(_painted("[-]", "device", wishes) + " " + " | ".join(cells), shown, runs, wishes)


def _task(task: TaskRow, runs: Mapping[str, RunRow], wishes: ProcessColumns) -> str:
    """Return a process as gpustat writes it, and what its run waits for and could gain."""
    user = task.user if wishes.user or not (wishes.command or wishes.pid) else ""
    told = ":".join(
        filter(None, (clean(user, USER), clean(task.command or task.name, COMMAND) if wishes.command else ""))
    )
    pid = f"/{task.pid}" if wishes.pid else ""
    memory = task.device_memory if task.device else task.memory
    held = UNKNOWN if memory is None else _size(memory)
    cpu = "" if task.device or task.cpu is None else f", {task.cpu:.1f} CPU"
    text = f"{told or ('' if wishes.pid else task.name)}{pid}".lstrip("/") + f"({held}{cpu})"
    about = _run(runs.get(task.run)) if task.role == "main" else ""
    return text + (_painted(f" [{about}]", "warn", wishes) if about else "")


def _run(run: RunRow | None) -> str:
    """Return what a live run waits for, and the best of its findings."""
    if run is None:
        return ""
    verdict = run.recent or run.verdict
    told = sum(row.share for row in verdict.ledger if row.span == "loader.wait") if verdict and verdict.ledger else None
    wait = run.present.wait if run.present is not None else told
    facts = [f"waits {_share(wait)}"] if wait is not None else []
    best = run.verdict.findings[0] if run.verdict is not None and run.verdict.findings else None
    if best is not None:
        gain = f" x{best.speedup.likely:.3g}" if best.speedup.likely > 1 else ""
        facts.append(f"{clean(best.id, NAME)}{gain}")
    return ", ".join(facts)


def _painted(text: str, role: str, wishes: ProcessColumns) -> str:
    return f"\x1b[{COLOURS[role]}m{text}\x1b[0m" if wishes.colour and role and text else text


def _share(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0%}"


def _plain(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _of(used: float | None, total: float | None) -> str:
    return (
        f"{UNKNOWN if used is None else f'{used / GIB:.1f}'} / {UNKNOWN if total is None else f'{total / GIB:.1f}'} GiB"
    )


def _size(count: float) -> str:
    return f"{count / GIB:.1f}G" if count >= GIB else f"{count / 2**20:.0f}M"
