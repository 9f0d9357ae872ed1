"""What holds for every advisor."""

from pathlib import Path

import gputune.advisors
from gputune.rooms import identity, names


def test_every_advisor_calls_its_findings_by_its_own_name() -> None:
    for name in names("gputune.advisors"):
        text = (Path(gputune.advisors.__path__[0]) / f"{name}.py").read_text()
        assert f'id="{identity(name)}"' in text
