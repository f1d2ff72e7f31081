"""File formats, flags and names of earlier tools, kept working at the edge of the house."""
