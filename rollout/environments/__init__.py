"""Environments, where tasks are attempted: mock domains, Python functions, MCP servers, browsers, and suites of
others."""
