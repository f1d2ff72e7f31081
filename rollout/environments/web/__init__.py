"""Web pages as worlds: real browsers, one context of its own for each episode."""
