"""Answer one question honestly: is the new version slower?

The library behind the command line and the Dagster code location. Data goes one way, and so do imports:

    capture -> replay -> lab -> metrics -> gates -> judge -> report

`errors`, `files`, `plan`, `progress`, `storage` and `warehouse` are the ground that all of them stand on. Nothing in
here imports `dagster` or the code location `assets`.
"""
