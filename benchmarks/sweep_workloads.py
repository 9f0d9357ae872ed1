"""The workloads of `sweep.py`: what one sample costs, what one step costs, and a script that knows nothing of gputune.

A step sleeps, as the host does while a device computes, beside a small real one. Costs are seeded: every process that
makes sample i takes the same time for it.
"""

from typing import NamedTuple

SCRIPT = """
import io, math, random, time
import torch
from torch.utils.data import DataLoader, Dataset

def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

{head}

class Samples(Dataset):
    def __len__(self):
        return 10**7
    def __getitem__(self, index):
        chance = random.Random(index)
{item}

def build(**settings):
    return DataLoader(Samples(), batch_size={batch}, **settings)

weight = torch.zeros(1, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)

def step(batch):
    loss = (weight * batch.flatten()[:16].float().mean()).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep({step})

if __name__ == "__main__":
    torch.set_num_threads(1)
    for batch in build():
        step(batch)
"""


class Workload(NamedTuple):
    """What a sample costs, in Python; the rest in s and samples."""

    item: str
    batch: int
    step: float
    head: str = ""


WORKLOADS = {
    "blocking, constant": Workload("time.sleep(0.004); return torch.tensor(1.0)", 8, 0.008),
    "blocking, log-normal": Workload(
        "time.sleep(min(0.05, 0.003 * math.exp(chance.gauss(-0.3, 0.8)))); return torch.tensor(1.0)", 8, 0.008
    ),
    "blocking, bimodal": Workload(
        "time.sleep(0.04 if chance.random() < 0.04 else 0.002); return torch.tensor(1.0)", 8, 0.010
    ),
    "CPU-bound": Workload("spin(0.0010); return torch.tensor(1.0)", 8, 0.006),
    "mixed": Workload("time.sleep(0.002); spin(0.0004); return torch.tensor(1.0)", 8, 0.008),
    "tiny samples": Workload("return torch.tensor(float(index % 7))", 64, 0.002),
    "large samples": Workload("time.sleep(0.006); return torch.full((1 << 19,), 1.0)", 8, 0.030),
    "JPEG": Workload(
        "return torch.frombuffer(bytearray(Image.open(io.BytesIO(PICTURES[index % 8])).convert('RGB')"
        ".resize((64, 64)).tobytes()), dtype=torch.uint8)",
        8,
        0.010,
        """
from PIL import Image

def picture(seed):
    chance = random.Random(seed)
    image = Image.frombytes("RGB", (40, 40), chance.randbytes(4800)).resize((320, 320))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=90)
    return file.getvalue()

PICTURES = [picture(seed) for seed in range(8)]
""",
    ),
}


def script(workload: Workload) -> str:
    """Return the script of a workload."""
    item = "\n".join(f"        {line.strip()}" for line in workload.item.split("; "))
    return SCRIPT.format(item=item, batch=workload.batch, step=workload.step, head=workload.head)
