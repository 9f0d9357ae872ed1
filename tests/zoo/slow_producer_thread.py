"""A loader of one's own: threads make batches in plain Python and put them into a queue, and the loop takes them."""

import queue
import threading
import time

import kit
import torch

ZOO = {
    "cause": "slow-producer",
    "says": "one thread waits 60 ms for each batch, as for a store far away; the twin has six such threads",
    "fix": {"makers": 6},
    "device": "none",
    "also": [],
}
STEPS = 250


def fill(ahead: "queue.Queue[torch.Tensor]", stop: threading.Event) -> None:
    while not stop.is_set():
        time.sleep(0.06)
        ahead.put(torch.randn(64, 256))


args = kit.settings(ZOO, makers=1)
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 256))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
ahead: "queue.Queue[torch.Tensor]" = queue.Queue(6)
stop = threading.Event()
for _ in range(args.makers):
    threading.Thread(target=fill, args=(ahead, stop), daemon=True).start()
pace = kit.Pace()
for _ in range(STEPS):
    x = ahead.get()
    optimizer.zero_grad()
    net(x).square().mean().backward()
    optimizer.step()
    pace.saw(len(x))
stop.set()
