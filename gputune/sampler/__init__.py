"""The beat: every probe at its time, timed, and left out once it fails."""
