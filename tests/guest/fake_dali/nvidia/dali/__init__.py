"""Stands for NVIDIA DALI in tests: only what the guest touches, after its public source."""
