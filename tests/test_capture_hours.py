import pytest

from perf_pipeline.capture.hours import hour_folder, hour_of
from perf_pipeline.errors import InputError


def test_an_hour_has_its_folder() -> None:
    assert hour_folder("2026-11-30-04:00") == "dt=2026-11-30/hour=04"
    assert hour_of(1_796_011_199) == "2026-11-30-03:00"
    assert hour_of(1_796_011_200) == "2026-11-30-04:00"


@pytest.mark.parametrize("hour", ["", "2026-11-30", "2026-11-30-24:00", "2026-02-30-04:00", "2026-11-30-04:30", "../x"])
def test_what_is_no_hour(hour: str) -> None:
    with pytest.raises(InputError, match="write it as 2026-11-30-04:00"):
        hour_folder(hour)
