"""Eight small text files of annotations a sample, opened in the training process on the one CPU that it has."""

import json
import tempfile
from pathlib import Path

import kit
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "small-files",
    "says": "eight JSON files of 60 bytes a sample, num_workers=0 on one CPU; the twin keeps their lines in one file",
    "fix": {"packed": True},
    "device": "none",
    "also": ["heavy-preprocessing"],
    "prefix": ["taskset", "-c", "0"],
}
CAMERAS = ("front", "front_left", "front_right", "side_left", "side_right", "back", "back_left", "back_right")
SCENES = 400


class Boxes(Dataset):
    """One box a camera; a scene is what eight cameras saw at a time."""

    def __init__(self, root: str, packed: bool) -> None:
        self.root = root
        self.lines = Path(root, "all.jsonl").read_text().splitlines() if packed else None

    def __len__(self):
        return SCENES

    def box(self, scene, number):
        if self.lines is not None:
            return json.loads(self.lines[scene * len(CAMERAS) + number])
        with Path(f"{self.root}/{scene:04}_{CAMERAS[number]}.json").open() as file:
            return json.load(file)

    def __getitem__(self, scene):
        return [edge for number in range(len(CAMERAS)) for edge in self.box(scene, number)["box"]]


def annotate(root: str) -> None:
    lines = []
    for scene in range(SCENES):
        for number, camera in enumerate(CAMERAS):
            lines.append(json.dumps({"box": [scene, number, scene + 1, number + 1], "label": "car", "sure": 0.5}))
            Path(f"{root}/{scene:04}_{camera}.json").write_text(lines[-1])
    Path(root, "all.jsonl").write_text("\n".join(lines))


if __name__ == "__main__":
    args = kit.settings(ZOO, num_workers=0, packed=False)
    torch.set_num_threads(1)
    net = nn.Sequential(nn.Linear(4 * len(CAMERAS), 256), nn.ReLU(), nn.Linear(256, 2))
    sgd = torch.optim.SGD(net.parameters(), lr=1e-6)
    with tempfile.TemporaryDirectory() as root:
        annotate(root)
        scenes = Boxes(root, args.packed)
        loader = DataLoader(scenes, 50, shuffle=True, num_workers=args.num_workers, collate_fn=torch.tensor)
        pace = kit.Pace()
        for _epoch in range(50):
            for boxes in loader:
                sgd.zero_grad()
                net(boxes.float()).square().mean().backward()
                sgd.step()
                pace.saw(len(boxes))
