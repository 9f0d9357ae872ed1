"""The parts of `make gpu-day` (benchmarks/gpu_day.py, docs/gpu-day.md): one module each, with the steps it takes."""
