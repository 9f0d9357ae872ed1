"""A run that is watched, from its start to the words at its end."""
