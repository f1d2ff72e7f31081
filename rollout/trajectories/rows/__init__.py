"""From trajectories to the rows that a trainer consumes.

A trajectory is a list of `Exchange`s: what the model was sent, what it answered, the token ids of both where they are
known. A *form* (`form`) makes records of the attempts at a task; the table below names the built-in ones. `stretches`
decides which exchanges share a row; `token_rows` and `text_rows` say what a row holds; `token_tree` keeps all rows of a
task with each shared beginning once. Nothing here knows where trajectories come from: `rollout.pipelines.training`
reads runs.
"""

BUILT_IN = {
    "prefix_merge": "rollout.trajectories.rows.prefix_merge:PrefixMerge",
    "per_step": "rollout.trajectories.rows.per_step:PerStep",
    "memory": "rollout.trajectories.rows.memory:MemoryRows",
    "tree": "rollout.trajectories.rows.tree:TreeRows",
    "sft": "rollout.trajectories.rows.best:BestAttempts",
    "preferences": "rollout.trajectories.rows.preferences:Preferences",
    "corrections": "rollout.trajectories.rows.corrections:Corrections",
    "process": "rollout.trajectories.rows.process:ProcessRewards",
    "verl": "rollout.trajectories.rows.verl_prompts:VerlPrompts",
    "verl_steps": "rollout.trajectories.rows.verl_steps:VerlSteps",
}
"""The forms of `rollout train-data --form`, each loaded when it is asked for."""
