"""Responses of the server, one struct for each kind. The OpenAPI document is generated from them.

Times are in seconds since 1970. `null` means unknown.
"""
