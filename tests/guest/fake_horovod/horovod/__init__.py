"""Stands for Horovod in tests, after its public source: the exchange itself is that of gloo."""
