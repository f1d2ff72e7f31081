"""The Python API: `run`, `arun`, `stream`, `load_run` and `export`, and what they return.

Users import these names from `rollout` itself. Everything here stands on `rollout.pipelines`, as the commands do.
"""
