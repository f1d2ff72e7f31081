"""Looking at runs that are on disk: lists, distributions, differences, and trajectories as a person reads them."""
