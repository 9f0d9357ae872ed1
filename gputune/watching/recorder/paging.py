"""The process that writes a run's page once its verdict was said."""

from pathlib import Path

from gputune.watching.recorder import afterwards

CODE = "from gputune.html.writing import main; main(sys.argv[1:])"


def start(folder: str, typed: str) -> str:
    """Start it for a run folder, which one types as `typed`; return why that was not possible, "" where it was."""
    why = afterwards.begin(CODE, str(Path(folder).absolute()), typed)
    return f"its page was not written ({why})" if why else ""
