"""One file, one instrument. A probe measures and never judges."""
