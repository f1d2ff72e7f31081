"""What the views of the page show, read from journals: a run, a trajectory, a tree, and the parts of a trajectory."""
