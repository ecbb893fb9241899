"""What all tests share: how hypothesis looks for examples, and what may run beside what.

The same examples come every time, and none has to be quick, so that a test that passed fails only for what was changed,
however busy the machine. `pytest --hypothesis-profile=exploring` looks for new ones.
"""

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("exploring", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", settings.get_profile("exploring"), derandomize=True, database=None)
settings.load_profile("repeatable")


@pytest.hookimpl(tryfirst=True)  # before xdist asks for groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that start real programs follow one another, as they measure; `make test` runs the others beside them."""
    for item in items:
        if item.get_closest_marker("integration"):
            item.add_marker(pytest.mark.xdist_group("integration"))
