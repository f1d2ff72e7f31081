"""The work of the commands, without a terminal: run, score, filter, export, train data, compare, web iterations."""
