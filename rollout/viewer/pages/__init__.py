"""Journals read for the views of the page: a run, a trajectory, a tree, and the parts of a trajectory."""
