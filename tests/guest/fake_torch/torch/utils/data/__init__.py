from torch.utils.data import _utils
from torch.utils.data.dataloader import DataLoader

__all__ = ["DataLoader", "_utils"]
