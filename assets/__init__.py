"""The Dagster code location: thin assets that call the library and attach metadata."""
