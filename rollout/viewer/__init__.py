"""The server behind `rollout view`: runs, trajectories and trees as JSON, and the page that shows them.

A request comes through `access` (token, Host, Origin) to `app`, which makes its routes from the tables of endpoints in
`routes/`; `openapi` makes the documentation from the same tables. A handler gets an `endpoint.ApiCall` and returns a
struct of `answers/`. Journals are only read; what is shown comes from three places:

- the *journal* of a run, read by `pages/`: runs, trajectories, trees, what was sent, states, tokens;
- its *index* (`index/`), a file beside the journal for filters, orders, full text and figures;
- *people*: marks, and an `editor` for each run, which writes corrections, growths and conversations into `people/`.

`server.Viewer` owns what is alive: `open_runs`, the editors, and the `hub`, to which `following` publishes every change
and from which `routes.events` sends them to open pages. `serve` opens the socket. `exporting` and `report` make files
of a selection. `page/` is built from `frontend/` and served by `page_files`.
"""
