"""A setting that would use up CPUs, /dev/shm or memory is refused, with the reason."""

from dataclasses import replace

import pytest

from gputune.sweep.limits import Limits
from gputune.sweep.settings import Setting, setting

MIB = 1 << 20
OWN = setting(0, 2, pin_memory=False, persistent=False)
ROOMY = Limits(workers=64, batches=1e9, memory=None, worker=200 * MIB, batch=MIB, script=OWN)


def workers(number: int, prefetch: int = 2) -> Setting:
    return setting(number, prefetch, pin_memory=False, persistent=False)


def test_what_fits_is_not_refused() -> None:
    assert ROOMY.refuses(workers(16)) == ""
    assert ROOMY.refuses(OWN) == ""


@pytest.mark.parametrize(
    ("differs", "refused", "says"),
    [
        ({"workers": 4}, workers(5), "CPUs"),
        ({"batches": 15.0}, workers(4, 4), "/dev/shm"),
        ({"memory": 700.0 * MIB}, workers(4), "more memory"),
        ({"shared": False}, workers(2), "stream"),
    ],
)
def test_what_would_use_something_up_is_refused(differs: dict[str, object], refused: Setting, says: str) -> None:
    limits = replace(ROOMY, **differs)
    assert says in limits.refuses(refused)
    assert limits.refuses(workers(1)) == ""


def test_the_script_s_own_settings_are_what_is_taken_already() -> None:
    own = workers(8)
    limits = replace(ROOMY, script=own, memory=0.0)
    assert limits.refuses(workers(4)) == ""
    assert limits.refuses(workers(10)) != ""
