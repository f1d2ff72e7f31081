"""Filters: marks with reasons over finished trajectories, and what follows from them. A trajectory is never changed.

`filter` is the contract, and `rollout.config.filters` lists the built-in ones; `faults`, `leaks`, `endings`,
`duplicates` and `groups` hold them. `turns` says of every answer of the agent what it was; `marks` makes one verdict of
what was found; `filtering` brings them together. In the words of the papers, and of this package, a *turn* is one
answer of the agent with the results of its calls.
"""
