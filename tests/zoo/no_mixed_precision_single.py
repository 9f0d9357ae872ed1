"""All kernels compute in 32 bits and leave the tensor cores alone; in 16 bits they take half of the time."""

import kit
import torch
from simnet import GIB, SimNet
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "no-mixed-precision",
    "says": "30 ms of kernels a step without any tensor core; 15 ms with them, as far as a simulated card can say",
    "fix": {"half": True},
    "device": "sim",
    "also": [],
}


class Sequences(Dataset):
    def __len__(self) -> int:
        return 6 * 300

    def __getitem__(self, index):
        return torch.arange(index, index + 256)


def main() -> None:
    args = kit.settings(ZOO, half=False)
    torch.set_num_threads(1)
    times = 0.5 if args.half else 1.0
    net = SimNet(0.030 * times / 6, memory=(20 if args.half else 38) * GIB, tensor=0.45 if args.half else 0.0)
    optimizer = torch.optim.AdamW(net.parameters())
    pace = kit.Pace()
    for step, tokens in enumerate(DataLoader(Sequences(), batch_size=6, num_workers=1, shuffle=True)):
        loss = net(tokens)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 25 == 0:
            net.wait()
        pace.saw(len(tokens))
    net.wait()
    pace.saw(0)


if __name__ == "__main__":
    main()
