"""The script started for so many batches, and how fast these came: what proofs, sweeps and packs measure with."""
