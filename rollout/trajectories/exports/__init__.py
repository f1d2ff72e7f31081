"""Formats that trainers read, each in a file of its own; `exporter` holds the contract and the list of them."""
