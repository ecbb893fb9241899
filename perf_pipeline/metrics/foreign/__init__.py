"""Results that other load generators left: each form of file, turned into what a run directory is turned into."""
