"""Copies, allocations and the values that the host may rely on."""

from collections.abc import Callable
from typing import Any

import pytest

Maker = Callable[..., Any]
LATENCY = 0.008  # ms of a copy


def test_pinned_copies_run_beside_the_host_and_pageable_ones_block(machine: Maker) -> None:
    code = """
        pageable = torch.ones(24_000_000, dtype=torch.uint8); pinned = pageable.pin_memory()
        pageable.to(device); pinned.to(device); sync()
        ahead(); end = mark()
        a = mark(); pinned.to(device, non_blocking=True); b = mark()
        print(end.query(), pinned.is_pinned())
        pageable.to(device, non_blocking=True); c = mark()
        print(end.query()); sync()
        print(a.elapsed_time(b)); a = mark(); pageable.to(device); b = mark(); sync(); print(a.elapsed_time(b))
    """
    early, is_pinned, late, pinned, pageable = machine().run(code)
    assert (early, is_pinned, late) == ("False", "True", "True")
    assert float(pinned) == pytest.approx(1 + LATENCY, abs=0.001)
    assert float(pageable) > 4  # at 6 GB/s, and the host's own part


def test_data_goes_there_and_back(machine: Maker) -> None:
    code = """
        x = torch.arange(60_000.0)
        print(bool((x.to(device).cpu() == x).all()), torch.zeros(3, device=device).tolist() == [0, 0, 0])
        print(torch.full((2,), 7.0, device=device)[1].item(), torch.tensor([5, 6], device=device).sum().item())
    """
    assert machine().run(code) == ["True", "True", "7.0", "11"]


def test_what_control_flow_reads_is_sane(machine: Maker) -> None:
    code = """
        model = torch.nn.Linear(8, 8).to(device)
        optimizer = torch.optim.Adam(model.parameters(), fused=True)
        scaler = torch.amp.GradScaler("cuda")
        for _ in range(3):
            with torch.autocast("cuda", dtype=torch.float16):
                loss = torch.nn.functional.mse_loss(model(torch.randn(4, 8, device=device)), torch.zeros(4, 8, device=device))
            scaler.scale(loss).backward(); scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer); scaler.update(); optimizer.zero_grad()
        print(loss.item(), torch.isnan(loss).item(), torch.isfinite(loss).item(), bool(loss < 5), scaler.get_scale())
    """
    assert machine().run(code) == ["0.0", "False", "True", "True", "65536.0"]


def test_memory_runs_out_also_for_what_another_process_holds(machine: Maker) -> None:
    made = machine()
    code = """
        def fits(gib):
            try: return bool(torch.empty(gib << 30, dtype=torch.uint8, device=device).numel())
            except torch.OutOfMemoryError: return False
        print(fits(60), flush=True); torch.cuda.empty_cache()
        print(torch.cuda.mem_get_info()[0] >> 30, flush=True); input()
        print(fits(60), fits(10), torch.cuda.mem_get_info()[0] >> 30, flush=True); torch.cuda.empty_cache(); input()
        print(fits(60))
    """
    process = made.start(code)
    assert [process.stdout.readline().strip() for _ in range(2)] == ["True", "79"]
    holder = made.start("x = torch.empty(50 << 30, dtype=torch.uint8, device=device); print('up', flush=True); input()")
    assert holder.stdout.readline() == "up\n"
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline().split() == ["False", "True", "18"]
    holder.kill()
    holder.communicate()
    process.stdin.write("\n")
    out, errors = process.communicate(timeout=60)
    assert out == "True\n", errors


def test_the_books_say_what_the_trace_says(machine: Maker) -> None:
    made = machine()
    trace = made.folder / "trace"
    code = """
        print(os.getpid())
        x = torch.zeros(1 << 20, device=device); big = torch.empty(240_000_000, dtype=torch.uint8).pin_memory()
        side = torch.cuda.Stream(); ahead(); side.wait_stream(torch.cuda.current_stream())
        for _ in range(5):
            with torch.cuda.stream(side): there = big.to(device, non_blocking=True)  # 10 ms
            torch.cuda._sleep(6 * MS)
            torch.cuda.current_stream().wait_stream(side)  # 4 ms of the copy show
            torch.cuda._sleep(MS)
            side.wait_stream(torch.cuda.current_stream())
        for _ in range(2000): x.add_(1)
        sync()
    """
    (pid,) = made.run(code, trace=trace, launch_us=0)
    items = [line.split() for line in trace.read_text().splitlines()]
    lasted = {kind: sum(int(i[4]) - int(i[3]) for i in items if i[0] == kind) for kind in ("kernel", "h2d")}
    books = made.cards.booked(0, int(pid))
    assert sum(i[0] == "kernel" for i in items) == books["kernels"]
    assert books["kernels"] > 2000
    assert books["kernel"] == pytest.approx(lasted["kernel"], abs=1e4)
    assert books["h2d"] == pytest.approx(lasted["h2d"], abs=1e3)
    assert books["exposed_copy"] == pytest.approx(5 * 4.008e6, abs=1e5)
    told = books["kernel"] + books["exposed_copy"] + books["exposed_collective"] + books["idle"]
    assert told == pytest.approx(books["until"] - books["since"])
