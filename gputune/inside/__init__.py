"""gputune inside of a Python that runs already: `gputune.watch`, `gputune.load` and the notebook's `%%gputune`.

We are a guest in the user's process here as well: what it takes is imported when it is asked for, pyarrow and what
judges only where somebody loads a run.

 blocks     `gputune.watch(...)`: a block, or a function, that is recorded
 joined     the recorder beside this process: how it begins and leaves
 around     who records this process already
 loaded     `gputune.load(RUN)`: a run as tables and objects
 shown      a verdict as a notebook shows it
 cells      `%load_ext gputune`, `%%gputune`
"""
