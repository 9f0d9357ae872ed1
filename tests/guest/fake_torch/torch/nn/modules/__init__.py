from torch.nn.modules import module

__all__ = ["module"]
