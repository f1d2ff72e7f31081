"""A run on several machines: the driver has the trees, the strategies and the journal; workers run episodes.

An episode is the same object on a worker as in a run on one machine. It writes to a record that sends everything to the
driver (`sending`), asks gates that ask the driver's limiter (`gates`), and pauses or ends at the command by the driver
(`worker`). The driver's side of a worker is a `Rank`; all of them are `Ranks`, which say where the next episode goes;
an episode that runs elsewhere is a `FarEpisode`, and the engine does not know the difference. Only `ray_nodes` knows
Ray.
"""
