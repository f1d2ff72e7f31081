"""Text on a terminal or in a notebook: progress, conversations, log lines and tables.

The commands and `rollout.run` show the same things, so what they show is here and below both.
"""
