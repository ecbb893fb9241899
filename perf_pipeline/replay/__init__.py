"""From captured requests to load: the frozen workload, the order of runs, k6."""
