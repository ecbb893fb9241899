"""What all tests share: how hypothesis looks for examples.

The same examples come every time, and none has to be quick, so that a test that passed fails only for what was changed,
however busy the machine. `pytest --hypothesis-profile=exploring` looks for new ones.
"""

from hypothesis import HealthCheck, settings

settings.register_profile("exploring", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", settings.get_profile("exploring"), derandomize=True, database=None)
settings.load_profile("repeatable")
