"""Reading a journal (`reader.JournalReader`): nodes and trajectories, episodes and trees, counts and figures."""
