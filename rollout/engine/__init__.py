"""The execution of a plan: the engine, the episode, live trees, replay, control."""
