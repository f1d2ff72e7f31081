"""From finished runs to training data: a survey of the groups, then the rows of each."""
