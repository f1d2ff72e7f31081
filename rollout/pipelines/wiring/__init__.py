"""From a configuration to what runs: `datasets` wires environments, agents, strategies and scorers of each dataset."""
