"""How a plan is executed: the engine, the episode, live trees, replay, control."""
