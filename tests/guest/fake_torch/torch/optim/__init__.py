from torch.optim import optimizer

Optimizer = optimizer.Optimizer
