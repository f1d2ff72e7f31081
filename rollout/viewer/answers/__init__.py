"""Answers of the server: one struct for each kind of answer, from which the OpenAPI document is made.

Times are in seconds since 1970. `null` stands for what is unknown.
"""
