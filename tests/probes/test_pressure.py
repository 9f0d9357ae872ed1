"""The pressure probe."""

import pytest

from gputune.core.sample import Unavailable
from gputune.probes import pressure


def test_reads_the_microseconds_of_the_first_line(machine, values) -> None:
    for n, name in enumerate(("cpu", "io", "memory")):
        text = f"some avg10=0.00 avg60=0.00 avg300=0.00 total={n + 5}\nfull avg10=0.00 total=99\n"
        machine.write(f"proc/pressure/{name}", text)
    seen = values(next(pressure.attach(machine.target())))
    assert seen == {"pressure.cpu": 5, "pressure.io": 6, "pressure.memory": 7}


def test_a_kernel_without_it_is_said(machine) -> None:
    with pytest.raises(Unavailable, match="no pressure stall information"):
        next(pressure.attach(machine.target()))
