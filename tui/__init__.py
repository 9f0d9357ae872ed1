"""The screen: nodes, one node, one run, one finding, drawn from the rows of `gputune/scene.py`. It measures nothing.

 drawing   numbers to cells: bars, sparks, plots; pure        words    numbers to words, likewise
 lines     what a line of the screen is made of               roles    what a span means, to a style
 pages/    rows to lines, one file a screen; pure             store    the rows that are known now
 sheet     the one widget that shows lines, on Textual's Line API
 app       the application: keys, screens, the thread that asks the feed

Textual is imported by `sheet`, `roles`, `app` and `screens` only; they are imported when a screen is opened.
"""
