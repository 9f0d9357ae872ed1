"""What options of `watch` may say, as numbers: read here for both roads of the command line, with nothing imported.

Each returns None where the text cannot be meant; the ordinary road then says so (`gputune/commands/watch.py`).
"""

TUNING = ("all", "identical")  # what `--tune` may change: whatever pays, or what leaves every number as it is
TRYING = "try"  # `--try`: the same as the latter, and nothing is kept
STARVING = "starving"
STARVED = 60.0  # s of starving after which it is given up on, where no number is given
PERTURBED = 0.003  # of a training's time that may go into experiments, where nothing is said
MOST_PERTURBED = 3.0  # %: two seconds in a minute
SHORTEST = 1.0  # s; the share of waiting is measured once a second
SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}


def number(text: str) -> "float | None":
    """Return a number that is neither endless nor none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None


def price(text: str) -> "float | None":
    """Return a price, of one device for an hour: any number that is not negative."""
    value = number(text)
    return value if value is not None and value >= 0 else None


def share(text: str) -> "float | None":
    """Return a percentage, with or without its sign, as a share: above 0, at most 1."""
    value = number(text.strip().removesuffix("%"))
    return value / 100 if value is not None and 0 < value <= 100 else None


def perturbing(text: str) -> "float | None":
    """Return a percentage, with or without its sign, as a share: from 0 to 3 %."""
    value = number(text.strip().removesuffix("%"))
    return value / 100 if value is not None and 0 <= value <= MOST_PERTURBED else None


def seconds(text: str) -> "float | None":
    """Return a duration of at least a second: `90`, `90s`, `5m`, `1h`, `30d`."""
    text = text.strip()
    digits = text.rstrip("minhsd")
    value = number(digits)
    unit = SECONDS.get(text[len(digits) :])
    return None if value is None or unit is None or value * unit < SHORTEST else value * unit


def tuning(text: str) -> "str | None":
    """Return what may be tuned, as it is called."""
    return text if text in {*TUNING, TRYING} else None


def exporters() -> "list[str]":
    """Return where a run can be taken to: the names of the files of `gputune/exporters/`."""
    import os  # noqa: PLC0415 - only where it is asked for

    folder = os.path.join(os.path.dirname(os.path.dirname(__file__)), "exporters")
    return sorted(file[:-3] for file in os.listdir(folder) if file.endswith(".py") and file[0] != "_")


def exporting(text: str) -> "str | None":
    """Return names of exporters with commas between them, each of them once."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    return ",".join(names) if set(names) <= set(exporters()) else None


def starving(text: str) -> "float | None":
    """Return the seconds of `starving` or `starving:SECONDS`."""
    word, sign, rest = text.partition(":")
    if word != STARVING:
        return None
    return seconds(rest) if sign else STARVED
