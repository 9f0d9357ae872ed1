"""The report as one page to keep and to send: no address in it leads elsewhere, and it is whole without its script.

 writing    a folder to a page in a file; also the process that does so after a `watch`
 kinds      what a folder is: a run, a job of ranks, several on one card, a proof, a sweep
 run        a run as the page shows it            parts      the members of a folder, a row each
 engine     templates, and a policy that runs nothing else but the page's own script
 columns    which plots there are                   plots      what was measured, as the page's script draws it
 ledgers    where the time went, to 100 %         changes    a finding's change as a diff
 about      where and with what it ran            page/      templates, style, script; page/vendor/ is uPlot

It says what `gputune.report` says, in the same words: it lays out, and neither judges nor measures.
"""
