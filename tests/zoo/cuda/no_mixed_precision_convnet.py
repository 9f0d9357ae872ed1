"""A convolutional net with the usual TF32 and no autocast; half precision takes half of the time."""

import itertools

import kit_cuda as kit
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "no-mixed-precision",
    "says": "convolutions in TF32, as torch has them by default; the device is busy all the time",
    "fix": {"amp": True},
    "device": "cuda",
    "also": [],
}


class Cells(Dataset):
    def __len__(self):
        return 48 * 230

    def __getitem__(self, index):
        return torch.full((3, 64, 64), index % 255, dtype=torch.uint8), index % 5


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        widths = [3, 128, 256, 512, 512, 512]
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in itertools.pairwise(widths))
        self.norms = nn.ModuleList(nn.BatchNorm2d(b) for b in widths[1:])
        self.classify = nn.Linear(512, 5)

    def forward(self, x):
        for level, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            x = norm(conv(x)).relu_()
            if level in {1, 3}:
                x = nn.functional.max_pool2d(x, 2)
        return self.classify(x.mean(dim=(2, 3)))


def main():
    args = kit.settings(ZOO, amp=False)
    torch.set_num_threads(1)
    torch.backends.cudnn.benchmark = True
    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4, fused=True)
    scaler = torch.amp.GradScaler("cuda", enabled=args.amp)
    loader = DataLoader(Cells(), 48, shuffle=True, num_workers=2, pin_memory=True)
    pace = kit.Pace()
    for cells, kinds in loader:
        cells, kinds = cells.cuda(non_blocking=True), kinds.cuda(non_blocking=True)
        with torch.autocast("cuda", torch.float16, enabled=args.amp):
            loss = nn.functional.cross_entropy(model(cells / 255), kinds)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        pace.saw(len(kinds))
    pace.done()


if __name__ == "__main__":
    main()
