"""From an access-log line to a request that may be replayed."""
