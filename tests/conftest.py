"""What all tests share: how hypothesis looks for examples, and what may run beside what.

The same examples come every time, and none has to be quick, so that a test that passed fails only for what was changed,
however busy the machine. `pytest --hypothesis-profile=exploring` looks for new ones.
"""

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

settings.register_profile("exploring", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", settings.get_profile("exploring"), derandomize=True, database=None)
settings.load_profile("repeatable")


class RealProgramsTogether(LoadScopeScheduling):
    """Tests that measure follow one another in one process, and so do those that share a broker and a bucket.

    All others are divided by module and run beside them.
    """

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        folder, _, name = module.rpartition("/")
        if folder != "tests/integration":
            return module
        return "servers" if name.startswith(("test_bucket", "test_capture_")) else "lab"


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """How `pytest -n 2`, which is `make test`, divides the tests."""
    return RealProgramsTogether(config, log)
