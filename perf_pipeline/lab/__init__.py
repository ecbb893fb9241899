"""Where runs happen: fresh environments, collectors, the life of one run."""
