"""What torch.compile makes of a script, and what it warns about, is the same with a guest beside it."""

from collections.abc import Callable
from typing import Any

import pytest

CODE = """
import warnings, torch
from torch.utils.data import DataLoader, Dataset
seen = set()
warnings.showwarning = lambda message, *rest: seen.add(str(message))
warnings.simplefilter("always")

class Rows(Dataset):
    def __len__(self): return 8
    def __getitem__(self, index): return torch.full((2,), float(index))

def together(rows): return torch.stack(rows)

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train(batch):
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
    return batch.sum()

it = iter(DataLoader(Rows(), 1, collate_fn=together))
def given(): return train(next(it))
def named(): return train(it.__next__())
def epoch():
    total = torch.zeros(())
    for batch in DataLoader(Rows(), 4): total = total + train(batch)
    return total
for function in (given, named, epoch):
    print(torch.compile(function, backend="eager")().item())
for message in sorted(seen): print(message)
codes = [code() for code in torch._dynamo.convert_frame.output_codes.seen]
files = {code.co_filename: code for code in codes if code is not None}
assert not [file for file in files if "gputune_guest" in file], files
print(sorted(code.co_name for code in codes if code is not None and code.co_filename == __file__))
"""


@pytest.mark.slow
@pytest.mark.timeout(400)  # three starts, one after the other
def test_dynamo_compiles_no_frame_of_ours_and_warns_of_none(watched: Callable[..., Any]) -> None:
    bare = watched(CODE, env={"GPUTUNE_RINGS": ""})
    assert bare.status == 0, bare.err
    for pure in ("", "1"):
        assert watched(CODE, env={"GPUTUNE_GUEST_PURE": pure}).healthy().out == bare.out


def test_a_torch_that_cannot_skip_code_is_left_as_it_is(lightly: Callable[..., Any]) -> None:
    code = """
import types
import torch
from gputune_guest import compiling
compiling._hook(types.SimpleNamespace())
marked = []
compiling._hook(types.SimpleNamespace(skip_code=marked.append))
assert {code.co_name for code in marked} > {"wrapper", "_returned", "_bytes"}
assert all("gputune_guest" in code.co_filename for code in marked)
"""
    lightly(code).healthy()
