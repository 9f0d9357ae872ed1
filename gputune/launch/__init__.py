"""The supervisor: starts a command as a shell would, forwards signals, returns its status, and nothing else.

It runs in the one process of gputune that must never fail and stays the size of a bare interpreter. So this package
imports only what an interpreter has at hand (os, signal, marshal): no click, no dataclasses, no re.
"""
