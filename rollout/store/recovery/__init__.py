"""Damaged runs: finding damage in the write-ahead log, and saving what is readable as a new run.

`recover` does it with `salvage`, which reads a broken database page by page, and `pruning`, which removes what is
incomplete.
"""
