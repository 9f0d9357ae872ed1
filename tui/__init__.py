"""The screen: nodes, one node, one run, one finding, drawn from `gputune/feeds/rows.py`. It measures nothing.

 drawing   numbers to cells: bars, sparks, plots; pure        words    numbers to words, likewise
 lines     what a line of the screen is made of               roles    what a span means, to a style
 pages/    rows to lines, one file a screen; pure             store    the rows that are known now
 views     what can be shown; the foot                        first    the first page, before Textual is there
 sheet     the one widget that shows lines, on Textual's Line API
 app       the application: keys, screens, the thread that asks the feed
 showing   a screen from its first line to its last           driver   Textual's, writing to an `output`
 output    a terminal that is written to                      leaving  signals, and a terminal that vanishes

Textual is imported by `sheet`, `app` and `driver` only; they are imported once the first page is drawn.
"""
