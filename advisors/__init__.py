"""One file, one cause. The file name is the id that users see, with dashes."""
