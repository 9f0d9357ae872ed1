"""One file, one command; the file name is the command."""
