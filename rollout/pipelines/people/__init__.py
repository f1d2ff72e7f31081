"""Additions of people to a run: marks, corrections, branches, and conversations that they play in.

Marks are in `marks.db`, everything else in `people/` inside the run directory, which is a run directory itself. The
run's own journal is only read, so people may work on a run while it goes on, and their additions are not part of its
groups, its rates or its resume.
"""
