"""Rows to lines, one file a screen. Pure: what is shown hangs on the rows, the width and nothing else."""
