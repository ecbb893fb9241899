"""Version, scenario and repeat in paths: by a pattern, or told from the paths themselves."""

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perf_pipeline.errors import InputError
from perf_pipeline.metrics.foreign.layout import LAYOUTS, Layout, Place, tell_layout

VERSIONS = ("1.0.0", "1.0.0-rc1")


def place(pattern: str, path: str) -> Place | None:
    return Layout(pattern, VERSIONS).place(PurePosixPath(path))


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("{version}/{scenario}/{repeat}/k6.csv", "1.0.0/browse/3/k6.csv", Place("1.0.0", "browse", 3, None)),
        ("{version}/{scenario}/{repeat}", "1.0.0/browse/r03/k6.json.gz", Place("1.0.0", "browse", 3, None)),
        ("{version}-{scenario}-{repeat}", "1.0.0-rc1-all-items-2.csv.gz", Place("1.0.0-rc1", "all-items", 2, None)),
        ("{version}-{scenario}-{repeat}", "1.0.0-browse-run-2.csv", Place("1.0.0", "browse", 2, None)),
        ("*/{scenario}/{version}.txt", "nightly/cart/1.0.0.txt", Place("1.0.0", "cart", None, None)),
        ("**/{version}/{repeat}.hlog", "a/b/c/1.0.0/7.hlog", Place("1.0.0", "all", 7, None)),
        ("**/{version}/{repeat}.hlog", "1.0.0/7.hlog", Place("1.0.0", "all", 7, None)),
        ("{version}/{rate}", "1.0.0/9000rps.txt", Place("1.0.0", "9000 per s", None, 9000)),
        ("{version}/{scenario}@{rate}/{repeat}", "1.0.0/cart@50.5/1.csv", Place("1.0.0", "cart", 1, 50.5)),
        ("./{version}/{repeat}/", "1.0.0/2/results.csv", Place("1.0.0", "all", 2, None)),
        ("{version}/{repeat}", "2.0.0/2.csv", Place("2.0.0", "all", 2, None)),
        ("{version}/{scenario}/{repeat}", "1.0.0/browse.csv", None),
        ("{scenario}-{version}", "browse-1.0.0.1.json", None),
        ("v{version}/{repeat}", "1.0.0/2.csv", None),
    ],
)  # fmt: skip
def test_patterns(pattern: str, path: str, expected: Place | None) -> None:
    found = place(pattern, path)
    if expected is None and found is not None:
        # Another version's file may fit; it is never taken for one of these.
        assert found.version not in VERSIONS
    else:
        assert found == expected


@pytest.mark.parametrize(
    ("pattern", "messages"),
    [
        ("{scenario}/{repeat}", ["has no {version}"]),
        ("{version}/{version}/{run}", ["{run} is not known", "{version} stands twice"]),
        ("results", ["has no {version}"]),
    ],
)
def test_a_wrong_pattern_is_refused_with_everything_that_is_wrong(pattern: str, messages: list[str]) -> None:
    with pytest.raises(InputError) as raised:
        Layout(pattern, VERSIONS)
    assert len(raised.value.problems) == len(messages)
    for message in messages:
        assert message in str(raised.value)


@pytest.mark.parametrize(
    ("paths", "pattern"),
    [
        (["1.0.0/browse/1/k6.csv", "1.0.0-rc1/browse/2/k6.csv"], "{version}/{scenario}/{repeat}"),
        (["browse/1.0.0/1.csv", "cart/1.0.0-rc1/1.csv"], "{scenario}/{version}/{repeat}"),
        (["1.0.0/1.csv", "1.0.0-rc1/2.csv"], "{version}/{repeat}"),
        (["1.0.0/run-1.csv", "1.0.0-rc1/run-2.csv"], "{version}/{repeat}"),
        (["1.0.0/browse-1.csv", "1.0.0-rc1/browse-2.csv"], "{version}/{scenario}-{repeat}"),
        (["1.0.0-1.csv", "1.0.0-rc1-2.csv"], "{version}-{repeat}"),
        (["1.0.0-browse-1.csv", "1.0.0-rc1-cart-2.csv"], "{version}-{scenario}-{repeat}"),
        (["browse_1.0.0_1.csv", "cart_1.0.0-rc1_r2.csv"], "{scenario}_{version}_{repeat}"),
        (["r1/1.0.0/browse.csv", "r1/1.0.0-rc1/browse.csv"], "{repeat}/{version}/{scenario}"),
        (["1.0.0/1.csv", "0.9/weird/deep/path.csv", "1.0.0-rc1/1.csv"], "{version}/{repeat}"),
    ],
)
def test_the_layout_is_told_from_the_paths(paths: list[str], pattern: str) -> None:
    assert tell_layout([PurePosixPath(path) for path in paths], VERSIONS).pattern == pattern


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (["a.csv", "b.csv"], "none of 2 result files names 1.0.0 or 1.0.0-rc1"),
        (["11.0.0/1.csv", "1.0.0.1/1.csv"], "none of 2 result files"),
        (["1.0.0/browse.csv", "1.0.0-rc1/browse.csv"], "cannot be told from the paths of 2 result files"),
        (["1.0.0/1.csv", "1.0.0-rc1/browse/deep/1.csv"], "cannot be told"),
    ],
)
def test_paths_that_do_not_say_it_need_a_pattern(paths: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        tell_layout([PurePosixPath(path) for path in paths], VERSIONS)
    assert "--pattern" in raised.value.problems[0].remedy


NAME = st.from_regex(r"[a-z]{2,8}", fullmatch=True).filter(
    lambda name: name not in {"run", "rep", "no", "try", "round"}
)


@given(
    pattern=st.sampled_from([pattern for pattern in LAYOUTS if "{scenario}" in pattern]),
    version=st.sampled_from(VERSIONS),
    scenario=NAME,
    repeat=st.integers(1, 999),
    ending=st.sampled_from([".csv", ".json.gz", "/k6.csv", "/results/run.hlog"]),
)
def test_a_path_that_a_layout_makes_is_read_back(
    pattern: str, version: str, scenario: str, repeat: int, ending: str
) -> None:
    path = pattern.format(version=version, scenario=scenario, repeat=repeat) + ending
    if pattern.endswith("{scenario}") and ending.startswith("/"):
        return
    assert place(pattern, path) == Place(version, scenario, repeat, None)
