"""Suites that others wrote: BFCL multi-turn, tau2-bench, MiniWoB++."""
