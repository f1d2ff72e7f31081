"""Everything on disk: the journal and its readers, output files, blobs, locks, damage and recovery."""
