"""Small sites of our own, served on this machine, and tasks on them.

Each package here that has `make_app()` is a site: `shop`, `wiki`, `booking`, `tracker`, `patterns`, and `widget`, which
`patterns` shows in a frame. `hypertext` writes markup, `serving` keeps what a visitor did, `tasks/` holds the tasks.
docs/how-to/web-sites.md says how to add one.
"""
