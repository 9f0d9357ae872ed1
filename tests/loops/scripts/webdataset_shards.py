"""WebDataset: samples out of tar files, batched by the pipeline itself, read by a WebLoader."""

import io
import tarfile
import tempfile
import time
from pathlib import Path

import torch
import webdataset
from parts import BATCH, FEATURES, SLOW, WAIT_S, model


def shards(folder: Path, count: int, each: int) -> str:
    """Write `count` tar files of `each` samples, and return their pattern."""
    for shard in range(count):
        with tarfile.open(folder / f"{shard:03}.tar", "w") as tar:
            for sample in range(each):
                parts = {"cls": str(sample % 10).encode(), "bin": bytes(4 * FEATURES)}
                for kind, data in parts.items():
                    member = tarfile.TarInfo(f"{shard}_{sample}.{kind}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
    return str(folder / f"{{000..{count - 1:03}}}.tar")


class Device(torch.nn.Module):
    """Stands for a model on a device, beside which the millisecond of CPU that unpacking a batch takes is little."""

    def forward(self, x):
        time.sleep(0.050)
        return x


def decode(sample):
    if SLOW:
        time.sleep(WAIT_S)
    return torch.frombuffer(bytearray(sample["bin"]), dtype=torch.float32), int(sample["cls"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        urls = shards(Path(folder), count=8, each=80)
        data = webdataset.WebDataset(urls, shardshuffle=False).map(decode).batched(BATCH)
        train = webdataset.WebLoader(data, batch_size=None, num_workers=0)  # planted
        net = torch.nn.Sequential(model(), Device())
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        for _ in range(3):
            for x, y in train:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(net(x), torch.as_tensor(y)).backward()
                optimizer.step()
