def backward(*tensors):
    """Do nothing."""
