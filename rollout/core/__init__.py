"""What every room builds on: messages, tasks, the World contract, errors, seeds, retries, secrets, plugins."""
