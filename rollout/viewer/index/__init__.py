"""The index of a run, a file beside its journal: what the table of trajectories filters, sorts and searches by.

`run_index` keeps it up to date with `writer`, which makes `rows` for the tables of `schema`. `queries` turns
filters into SQL; `table`, `snippets` and `figures` read it.
"""
