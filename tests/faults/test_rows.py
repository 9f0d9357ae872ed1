"""A fixed share of each row in every `make test`: `make faults` tries more of them, and `FAULTS=full` all."""

import pytest

from tests.faults.row import NotHere, names, row
from tests.faults.trying import results


@pytest.mark.slow
@pytest.mark.timeout(900)  # a case has a time of its own
@pytest.mark.parametrize("name", [name for name in names() if row(name).share])
def test_its_promise_is_kept(name: str) -> None:
    each = row(name)
    try:
        found = list(results(each, each.sample()))
    except NotHere as why:
        pytest.skip(str(why))
    assert {one.case: one.why for one in found if one.why} == {}
    assert len(found) == min(each.share, each.quick)
