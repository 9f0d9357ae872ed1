"""What stands between a script and torch's functions."""


class TorchFunctionMode:
    pass
