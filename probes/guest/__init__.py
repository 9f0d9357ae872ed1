"""The folder that `gputune watch` puts in front of `PYTHONPATH`; never imported by gputune itself."""
