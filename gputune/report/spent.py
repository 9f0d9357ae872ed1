"""What a run cost, in one sentence: money where a price is known, else seconds and joules of its devices."""

from gputune.core.figures import duration
from gputune.report.words import number, percent
from gputune.verdict.document import Spent, Verdict

UNITS = ((1e9, "GJ"), (1e6, "MJ"), (1e3, "kJ"), (1.0, "J"))


def sentence(verdict: Verdict) -> str:
    """Return it; nothing where nothing was measured that a person would want to know."""
    spent = verdict.spent
    if spent is None:
        return ""
    parts = []
    if spent.cost is not None:
        parts.append(_cost(spent, _start_up(verdict), so_far=verdict.exit_code is None))
    elif spent.energy_j is not None and spent.waiting_s is not None:
        of_all = f"{duration(spent.device_s)}{_each(spent)}{_start_up(verdict)}"
        parts.append(f"the {_who(spent)} waited {_share(spent)} of {of_all}")
    if spent.energy_j is not None:
        parts.append(_energy(spent))
    if spent.samples_per_j is not None:
        parts.append(f"{number(spent.samples_per_j)} samples/J")
    return "; ".join(parts)


def _cost(spent: Spent, start_up: str, *, so_far: bool) -> str:
    many = f" × {spent.devices} devices" if spent.devices > 1 else ""
    said = f"cost{' so far' if so_far else ''} {money(spent.cost or 0.0)} (price {spent.price:.2f} an hour{many})"
    if spent.waiting_cost is None:
        return said
    meanwhile = "started up or waited" if spent.by == "training" else f"waited{start_up}"
    return f"{said}; {money(spent.waiting_cost)} of it while the {_who(spent)} {meanwhile}"


def _energy(spent: Spent) -> str:
    meanwhile = "" if spent.waiting_j is None else f", {_joules(spent.waiting_j)} of it while waiting"
    return f"{_joules(spent.energy_j or 0.0)}{meanwhile}"


def _who(spent: Spent) -> str:
    return "devices" if spent.by == "device" and spent.devices > 1 else spent.by


def _each(spent: Spent) -> str:
    return " of device time" if spent.devices > 1 else ""


def _start_up(verdict: Verdict) -> str:
    """Say that it is counted where it is much: a device that no loop lets wait has waited for its beginning."""
    return ", start-up included" if verdict.startup_s >= 0.1 * verdict.wall_s else ""  # of the run


def _share(spent: Spent) -> str:
    return percent((spent.waiting_s or 0.0) / spent.device_s) if spent.device_s else "0%"


def money(amount: float) -> str:
    """Return an amount in hundredths; of less than ten of them the two digits that count."""
    return f"{amount:.2f}" if amount >= 0.1 or amount == 0 else f"{float(f'{amount:.2g}'):f}".rstrip("0")


def _joules(energy: float) -> str:
    size, unit = next((pair for pair in UNITS if energy >= pair[0]), UNITS[-1])
    return f"{number(energy / size)} {unit}"
