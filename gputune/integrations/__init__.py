"""Callbacks for trainers: a training that is recorded without a line of its loop changed.

Each imports its framework, and is imported by who uses that: `gputune.integrations.lightning`, `.transformers` and
`.accelerate`. Ray Tune's is `gputune.ray`. Under `gputune watch` none is needed, and what there is gives way.
"""
