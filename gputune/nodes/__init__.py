"""Several machines on one screen: the agent that serves a node, and the feed that reads many of them.

on a node                                          on the screen's side
agent      one life of an agent                    feed       many agents as one feed of rows
desk       what it serves                          round      one of them: its link, and its rows
                                                   naming     what it is called
machine    the recording of the machine itself     keeping    the samples of nodes, kept where you are
places     its folder, socket and lock
beside     an agent beside a command               overssh    agents on hosts that ssh reaches
                                                   onray      agents on the nodes of a Ray cluster
"""
