"""What every room may use: errors, units, words, readings, findings, and files that are opened with care."""
