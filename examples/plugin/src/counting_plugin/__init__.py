"""One plug-in of each kind for Rollout. The entry points in `pyproject.toml` give them their names."""
