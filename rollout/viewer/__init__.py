"""The server behind `rollout view`: runs, trajectories and trees as JSON, and the page that shows them."""
