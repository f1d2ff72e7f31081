"""MiniWoB++: small pages with a goal each, played in the run's browsers."""
