"""One file, one ailment. The file name is the id that users see, with dashes."""
