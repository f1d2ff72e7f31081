"""Work of people on a run: marks, corrections, branches that they ask for, and parts that they take in conversations.

Marks lie in `marks.db`, everything else in `people/` inside the run directory, which is a run directory itself. The
run's own journal is only read, so people may work on a run that is going on, and nothing of what they do is part of its
groups, its rates or what a resume expects.
"""
