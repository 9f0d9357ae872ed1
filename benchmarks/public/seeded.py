"""Run a script that sets no seed as if it had: `seeded.py SEED SCRIPT …`. What it does else is its own."""

import random
import runpy
import sys
from pathlib import Path

import numpy as np
import torch

seed = int(sys.argv[1])
random.seed(seed)
np.random.seed(seed)
torch.manual_seed(seed)
del sys.argv[:2]
sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
runpy.run_path(sys.argv[0], run_name="__main__")
