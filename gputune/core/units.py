"""Units that readings are converted to: base units (s, B, ratio, W), and ns of the monotonic clock."""

NS = 1_000_000_000  # nanoseconds in a second
US = 1_000_000  # microseconds in a second: a recording has whole ones
