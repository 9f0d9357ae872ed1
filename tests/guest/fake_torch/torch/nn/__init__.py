from torch.nn import modules

Module = modules.module.Module


class Parameter:
    pass
