"""Filters: marks with reasons over finished trajectories, and what follows from them. A trajectory is never changed.

`turns` says of every answer of the agent what it was; `faults`, `leaks`, `endings`, `duplicates` and `groups` find what
should not be learnt; `marks` makes one verdict of what was found; `filtering` brings them together. In the words of the
papers, and of this package, a *turn* is one answer of the agent with the results of its calls.
"""
