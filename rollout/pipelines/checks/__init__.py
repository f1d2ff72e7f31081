"""Checks before a run: the dry run, its pings, and `rollout doctor`."""
