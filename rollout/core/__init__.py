"""The base of every room: messages, tasks, the World contract, errors, seeds, retries, secrets, plugins."""
