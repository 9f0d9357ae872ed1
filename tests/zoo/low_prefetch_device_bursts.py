"""Each twelfth step is long on the device, time to make batches ahead, but the queue of one worker holds one."""

import kit
import torch
from simnet import SimNet
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "low-prefetch",
    "says": "16 ms of CPU per batch on the only CPU, steps of 8 ms and each twelfth of 158 ms, prefetch_factor=1",
    "fix": {"prefetch_factor": 8},
    "device": "sim",
    "prefix": ["taskset", "-c", "1"],
    "also": ["few-workers"],
}


class Items(Dataset):
    def __len__(self) -> int:
        return 10 * 330

    def __getitem__(self, index: int) -> torch.Tensor:
        kit.burn(0.0016)
        return torch.full((1024,), index / 3600)


def main() -> None:
    args = kit.settings(ZOO, num_workers=1, prefetch_factor=1)
    torch.set_num_threads(1)
    student, teacher = SimNet(per_sample=0.0008, kernels=90), SimNet(per_sample=0.015, kernels=300)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.01)
    loader = DataLoader(Items(), 10, num_workers=args.num_workers, prefetch_factor=args.prefetch_factor)
    pace = kit.Pace()
    for step, batch in enumerate(loader, 1):
        loss = student(batch)
        if step % 12 == 0:
            loss = loss + teacher(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        student.wait()
        pace.saw(len(batch))


if __name__ == "__main__":
    main()
