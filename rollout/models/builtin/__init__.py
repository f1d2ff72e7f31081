"""`builtin/oracle`: it plays reference actions, with mistakes on request, and words that fit each step."""
