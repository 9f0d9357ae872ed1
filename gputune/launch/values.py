"""What options of `watch` may say, as numbers: read here for both roads of the command line, with nothing imported.

Each returns None where the text cannot be meant; the ordinary road then says so (`gputune/commands/watch.py`).
"""


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
