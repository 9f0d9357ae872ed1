"""Kernels, streams and events of torch keep the time that the card's model says."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SIMGPU = Path(__file__).parents[1] / "simgpu"
Maker = Callable[..., Any]
EXACT = 0.0015  # ms: two roundings of torch's float and one of the card's ns


def test_events_tell_exactly_what_kernels_cost(machine: Maker) -> None:
    code = """
        x = torch.zeros(1 << 20, device=device)
        ahead()
        a = mark(); torch.cuda._sleep(5 * MS); b = mark()
        x.add_(1); c = mark()
        for _ in range(100): x.add_(1)
        d = mark()
        sync()
        print(a.elapsed_time(b), b.elapsed_time(c), c.elapsed_time(d))
    """
    slept, one, hundred = map(float, machine().run(code))
    assert slept == pytest.approx(5, abs=EXACT)
    threads = (1 << 20) / 8  # eight elements each
    assert one * 1e6 == pytest.approx(1500 + threads * 48 / 3000, abs=1000 * EXACT)
    assert hundred == pytest.approx(100 * one, abs=100 * 0.001)


def test_the_books_tell_spinning_from_work_and_count_what_is_waited_for(machine: Maker) -> None:
    made = machine()
    code = """
        x = torch.zeros(1 << 20, device=device); x.add_(1); sync()
        sys.path.insert(0, os.environ["SIMGPU"])
        import simgpu
        cards = simgpu.Cards(os.environ["SIMGPU_STATE"])
        before = cards.booked()
        torch.cuda._sleep(20 * MS); x.add_(1); x.sum().item(); sync()
        after = cards.booked()
        print(*(after[name] - before[name] for name in ("kernel", "spun", "waits")))
    """
    kernel, spun, waits = map(float, made.run(code, {"SIMGPU": str(SIMGPU)}))
    assert spun == pytest.approx(20e6, rel=0.001)
    assert 0 < kernel - spun < 1e6
    assert waits == 2


def test_a_gemm_costs_its_flop_and_half_precision_less(machine: Maker) -> None:
    code = """
        for kind in (torch.float32, torch.bfloat16):
            x = torch.zeros(2048, 2048, device=device, dtype=kind)
            ahead()
            a = mark(); x @ x; b = mark(); sync()
            print(a.elapsed_time(b))
    """
    full, half = map(float, machine().run(code))
    flop = 2 * 2048**3
    assert full * 1e6 == pytest.approx(3000 + flop / 50e3, rel=0.001)
    assert half * 1e6 == pytest.approx(3000 + flop / 700e3, rel=0.02)


def test_a_stream_waits_for_a_mark_of_another(machine: Maker) -> None:
    code = """
        first, second = torch.cuda.Stream(), torch.cuda.Stream()
        def both(wait):
            begin = mark(); first.wait_event(begin); second.wait_event(begin)
            with torch.cuda.stream(first): torch.cuda._sleep(20 * MS)
            if wait: second.wait_stream(first)
            with torch.cuda.stream(second): torch.cuda._sleep(10 * MS)
            ends = mark(first), mark(second); sync()
            print(*(begin.elapsed_time(end) for end in ends))
        ahead(); both(True)
        ahead(); both(False)
    """
    in_order = machine().run(code)
    assert [float(word) for word in in_order[:2]] == pytest.approx([20, 30], abs=2 * EXACT)
    # both at once: they share the card until the shorter one has ended
    assert [float(word) for word in in_order[2:]] == pytest.approx([30, 20], abs=2 * EXACT)


def test_streams_that_wait_for_each_other_hundreds_of_times_come_to_an_end(machine: Maker) -> None:
    code = """
        streams = [torch.cuda.Stream() for _ in range(3)]
        ahead(); begin = mark(); streams[-1].wait_event(begin)
        for _ in range(200):
            for at, stream in enumerate(streams):
                stream.wait_stream(streams[at - 1])
                with torch.cuda.stream(stream): torch.cuda._sleep(MS // 100)
        end = mark(streams[-1]); sync()
        print(begin.elapsed_time(end))
    """
    assert float(machine().run(code)[0]) == pytest.approx(3 * 200 * 0.01, abs=3 * 200 * 1e-6 + EXACT)


def test_forty_streams_share_the_slots_of_the_engine(machine: Maker) -> None:
    code = """
        streams = [torch.cuda.Stream() for _ in range(40)]
        for stream in streams:
            with torch.cuda.stream(stream): torch.cuda._sleep(MS)
        ends = [mark(stream) for stream in streams]
        sync(); print(all(end.query() for end in ends), all(stream.query() for stream in streams))
    """
    assert machine().run(code) == ["True", "True"]


def test_marks_keep_their_times_when_thousands_follow(machine: Maker) -> None:
    code = """
        ahead()
        a = mark(); torch.cuda._sleep(3 * MS); b = mark()
        x = torch.zeros(4, device=device)
        for _ in range(9000): mark()
        sync(); print(a.elapsed_time(b))
    """
    assert float(machine().run(code, launch_us=0)[0]) == pytest.approx(3, abs=EXACT)


@pytest.mark.parametrize(("queue", "blocks"), [(64, True), (1024, False)])
def test_the_host_runs_ahead_as_far_as_the_launch_queue_goes(machine: Maker, queue: int, blocks: bool) -> None:
    code = """
        x = torch.zeros(4, device=device); sync()
        end = (torch.cuda._sleep(1000 * MS), mark())[1]
        for _ in range(200): x.add_(1)
        print(end.query()); sync()
    """
    assert machine().run(code, queue=queue) == [str(blocks)]


@pytest.mark.parametrize("spin", [0, 1])
def test_a_wait_burns_a_core_as_cuda_does_unless_it_is_told_not_to(machine: Maker, spin: int) -> None:
    code = """
        torch.zeros(4, device=device); sync()
        before = time.process_time(); torch.cuda._sleep(400 * MS); sync()
        print(time.process_time() - before)
    """
    assert (float(machine().run(code, spin=spin)[0]) > 0.03) == bool(spin)  # of 0.4 s, on a machine that does more


def test_a_graph_takes_the_time_of_its_kernels_and_one_launch(machine: Maker) -> None:
    code = """
        layer = torch.nn.Linear(64, 64).to(device); x = torch.randn(8, 64, device=device)
        side = torch.cuda.Stream(); side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side): layer(x)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(50): x.add_(1)
        ahead(); a = mark(); graph.replay(); b = mark()
        for _ in range(50): x.add_(1)
        c = mark(); sync()
        print(a.elapsed_time(b), b.elapsed_time(c))
        given = (torch.randn(4, 8, device=device),)
        graphed = torch.cuda.make_graphed_callables(torch.nn.Linear(8, 8).to(device), given)
        graphed(torch.randn(4, 8, device=device)).sum().backward(); sync()
    """
    replayed, launched = map(float, machine().run(code))
    assert replayed == pytest.approx(launched, abs=0.05)


def test_replays_of_large_graphs_with_their_backward_pass_end(machine: Maker) -> None:
    code = """
        class Cell(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.seen, self.kept = torch.nn.Linear(8, 64), torch.nn.Linear(64, 64)
            def forward(self, series):
                state = torch.zeros(16, 64, device=device)
                for moment in self.seen(series).unbind(1): state = torch.tanh(moment + self.kept(state))
                return state
        series = torch.randn(16, 100, 8, device=device)
        graphed = torch.cuda.make_graphed_callables(Cell().to(device), (series,)); sync()
        ahead()
        for _ in range(60): graphed(series).sum().backward()
        sync(); print("ok")
    """
    assert machine().run(code) == ["ok"]


def test_lower_clocks_and_a_neighbour_make_kernels_longer(machine: Maker) -> None:
    made = machine()
    code = "\nahead(); a = mark(); torch.cuda._sleep(20 * MS); b = mark(); sync(); print(a.elapsed_time(b))"
    made.cards.set(clock_sm=990)
    assert float(made.run(code)[0]) == pytest.approx(40, abs=0.01)
    made.cards.set(clock_sm=1980)
    busy = made.start("torch.cuda._sleep(60_000 * MS); print('up', flush=True); input()")
    assert busy.stdout.readline() == "up\n"
    assert float(made.run(code)[0]) == pytest.approx(40, abs=0.01)
    busy.kill()
    busy.communicate()
