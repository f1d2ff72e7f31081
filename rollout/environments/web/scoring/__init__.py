"""Scoring of what agents did in browsers: their answers, the pages they left, facts judged by a model, and blocking."""
