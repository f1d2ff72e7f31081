"""What is done with runs, without a terminal: run, score, filter, export, train data, compare, web iterations."""
