"""Every twelfth step is long: time to make ten batches ahead, but the queue of one worker holds one."""

import kit
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "low-prefetch",
    "says": "20 ms of CPU per batch, steps of 8 ms and each twelfth of some 200 ms, prefetch_factor=1",
    "fix": {"prefetch_factor": 16},
    "device": "none",
    "also": ["few-workers"],
}


class Items(Dataset):
    def __len__(self) -> int:
        return 10 * 360

    def __getitem__(self, index: int) -> torch.Tensor:
        kit.burn(0.0018)
        return torch.full((1024,), index / 3600)


def main() -> None:
    args = kit.settings(ZOO, num_workers=1, prefetch_factor=1)
    torch.set_num_threads(1)
    student = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 64))
    teacher = torch.nn.Sequential(torch.nn.Linear(64, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 4096))
    optimizer = torch.optim.SGD(student.parameters(), lr=0.01)
    loader = DataLoader(
        Items(), batch_size=10, num_workers=args.num_workers, prefetch_factor=args.prefetch_factor, shuffle=False
    )
    pace = kit.Pace()
    for step, batch in enumerate(loader, 1):
        code = student(batch)
        loss = code.square().mean()
        if step % 12 == 0:  # now and then the expensive term: many views of the code go through the teacher
            views = code.repeat(24, 1)
            loss = loss + teacher(views + torch.randn_like(views)).square().mean() * 1e-3
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(len(batch))


if __name__ == "__main__":
    main()
