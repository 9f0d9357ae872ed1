"""`gputune completion`: the script that a shell loads, and what it is then answered."""

import pytest

from tests.conftest import Run


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_completion(gputune: Run, shell: str) -> None:
    assert "_GPUTUNE_COMPLETE" in gputune("completion", shell).stdout


def test_commands_and_options_are_completed(gputune: Run) -> None:
    words = {"COMP_WORDS": "gputune wa", "COMP_CWORD": "1", "_GPUTUNE_COMPLETE": "bash_complete"}
    assert gputune(**words).stdout == "plain,watch\n"
    words = {**words, "COMP_WORDS": "gputune watch --no", "COMP_CWORD": "2"}
    assert gputune(**words).stdout == "plain,--no-stacks\n"
