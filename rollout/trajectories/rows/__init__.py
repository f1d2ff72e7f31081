"""From trajectories to the rows that a trainer eats.

A trajectory is a list of `Exchange`s: what the model was sent, what it answered, the token ids of both where they are
known. A *form* (`forms`) puts exchanges together to rows; `token_rows` and `text_rows` say what a row holds;
`token_tree` keeps all rows of a task with each shared beginning once; `preferences`, `process` and `best` make data of
other kinds; `records` says what is written of each. Nothing here knows where trajectories come from:
`rollout.pipelines.train_data` reads runs.
"""
