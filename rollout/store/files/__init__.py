"""The files of a run beside its journal: run file, outputs, summary, and what `filter` and `score` write."""
