"""Deploys: the right comparisons, once each, whatever the order of looks."""

from itertools import dropwhile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from perf_pipeline.deploys import Asked, Comparisons, Deploy, Seen, ask, forget, read_deploys
from perf_pipeline.storage import LocalObjectStore

FIRST = Deploy("deploys/1.json", "1.1.0")
SECOND = Deploy("deploys/2.json", "1.2.0")
NONE = Comparisons()


def judged(*keys: str) -> Comparisons:
    return Comparisons(judged=frozenset(keys))


def test_a_deploy_is_compared_with_what_ran_when_it_was_made() -> None:
    asked = ask([FIRST, SECOND], Seen(), "1.0.0", NONE, limit=5)
    assert asked.comparisons == ("1.0.0__1.1.0", "1.1.0__1.2.0")
    ran = frozenset({"1.0.0", "1.1.0", "1.2.0"})
    assert asked.seen == Seen("1.2.0", frozenset({FIRST.name, SECOND.name}), ran=ran)


def test_the_record_may_say_what_it_replaced() -> None:
    assert ask([Deploy("a", "1.2.0", baseline="1.1.0")], Seen(), "1.0.0", NONE, 5).comparisons == ("1.1.0__1.2.0",)


def test_nothing_is_asked_twice_after_a_restart() -> None:
    seen = Seen.from_text(ask([FIRST], Seen(), "1.0.0", NONE, 5).seen.to_text())
    again = ask([FIRST], seen, "1.0.0", judged("1.0.0__1.1.0"), 5)
    assert again == Asked((), {}, (), seen)


def test_a_rollback_is_followed_and_not_compared() -> None:
    rollback, next_one = Deploy("deploys/3.json", "1.0.0"), Deploy("deploys/4.json", "1.3.0")
    asked = ask([FIRST, rollback, next_one], Seen(), "1.0.0", NONE, 5)
    assert asked.comparisons == ("1.0.0__1.1.0", "1.0.0__1.3.0"), "what ran after the rollback is the baseline"
    assert asked.ignored == (
        "deploys/3.json: 1.0.0 was compared before; a record with judge_again: true compares it again",
    )


def test_a_rollback_is_compared_when_its_record_says_so() -> None:
    asked = ask([FIRST, Deploy("deploys/3.json", "1.0.0", judge_again=True)], Seen(), "1.0.0", NONE, 5)
    assert asked.comparisons == ("1.0.0__1.1.0", "1.1.0__1.0.0")


def test_a_build_that_does_not_run_is_no_later_baseline() -> None:
    build = Deploy("build 1.1.0", "1.1.0", baseline="1.0.0", runs=False)
    assert ask([build, SECOND], Seen(), "1.0.0", NONE, 5).comparisons == ("1.0.0__1.1.0", "1.0.0__1.2.0")


def test_before_the_first_deploy_record_the_release_of_today_runs() -> None:
    build = Deploy("build 1.1.0", "1.1.0", baseline="1.0.0", runs=False)
    seen = ask([build], Seen(), "1.0.0", NONE, 5).seen
    assert ask([SECOND], Seen.from_text(seen.to_text()), "1.1.0", NONE, 5).comparisons == ("1.1.0__1.2.0",)


def test_a_comparison_that_was_made_is_made_again_when_its_record_says_so() -> None:
    there_and_back = [
        Deploy("deploys/2.json", "1.0.0", judge_again=True),
        Deploy("deploys/3.json", "1.1.0", judge_again=True),
    ]
    asked = ask(there_and_back, Seen("1.1.0"), "1.0.0", judged("1.0.0__1.1.0"), 5)
    assert asked.comparisons == ("1.1.0__1.0.0", "1.0.0__1.1.0")
    assert asked.again == {"1.0.0__1.1.0": "deploys/3.json"}, "the way back was never compared"


def unreadable(name: str) -> Deploy:
    return Deploy(name, None)


def test_a_record_that_is_mended_later_is_compared_with_what_ran_when_it_came() -> None:
    first = ask([unreadable(FIRST.name), SECOND], Seen(), "1.0.0", NONE, 5)
    assert first.comparisons == ("1.0.0__1.2.0",), "the one that cannot be read keeps no other from its comparison"
    mended = ask([FIRST, SECOND], Seen.from_text(first.seen.to_text()), "1.0.0", judged(*first.comparisons), 5)
    assert mended.comparisons == ("1.0.0__1.1.0",)
    ran = frozenset({"1.0.0", "1.1.0", "1.2.0"})
    assert mended.seen == Seen("1.2.0", first.seen.handled | {FIRST.name}, ran=ran), (
        "what was deployed after it still runs"
    )
    third = ask([Deploy("deploys/3.json", "1.3.0")], mended.seen, "1.0.0", NONE, 5)
    assert third.comparisons == ("1.2.0__1.3.0",)


def test_a_record_that_is_mended_before_the_next_deploy_is_what_runs() -> None:
    waiting = ask([unreadable(FIRST.name)], Seen(), "1.0.0", NONE, 5)
    assert ask([FIRST, SECOND], waiting.seen, "1.1.0", NONE, 5).comparisons == ("1.0.0__1.1.0", "1.1.0__1.2.0")


def test_of_two_records_that_are_mended_in_turn_the_first_is_the_baseline_of_the_second() -> None:
    third = Deploy("deploys/3.json", "1.3.0")
    seen = ask([unreadable(FIRST.name), unreadable(SECOND.name), third], Seen(), "1.0.0", NONE, 5).seen
    one = ask([FIRST, unreadable(SECOND.name)], seen, "1.0.0", NONE, 5)
    two = ask([SECOND], one.seen, "1.0.0", NONE, 5)
    assert one.comparisons + two.comparisons == ("1.0.0__1.1.0", "1.1.0__1.2.0")
    assert two.seen.current == "1.3.0" and not two.seen.waiting


def test_a_mended_record_for_which_there_is_no_room_keeps_its_baseline() -> None:
    third = Deploy("deploys/3.json", "1.3.0")
    seen = ask([unreadable(FIRST.name), unreadable(SECOND.name), third], Seen(), "1.0.0", NONE, 5).seen
    full = ask([FIRST, SECOND], seen, "1.0.0", NONE, limit=1)
    assert full.comparisons == ("1.0.0__1.1.0",)
    assert ask([FIRST, SECOND], full.seen, "1.0.0", NONE, limit=1).comparisons == ("1.1.0__1.2.0",)


def test_a_build_is_never_what_was_deployed_after_a_mended_record() -> None:
    build = Deploy("zzz build 1.9.0", "1.9.0", baseline="1.0.0", runs=False)
    seen = ask([unreadable(FIRST.name), build], Seen(), "1.0.0", NONE, 5).seen
    assert ask([FIRST, SECOND], seen, "1.0.0", NONE, 5).comparisons == ("1.0.0__1.1.0", "1.1.0__1.2.0")


def test_the_same_version_again_is_no_comparison() -> None:
    asked = ask([FIRST, Deploy("deploys/2.json", "1.1.0")], Seen(), "1.0.0", NONE, 5)
    assert asked.comparisons == ("1.0.0__1.1.0",)
    assert asked.ignored == ("deploys/2.json: 1.1.0 was running already",)


def test_a_look_is_bounded_and_the_next_one_goes_on() -> None:
    deploys = [Deploy(f"deploys/{n}.json", f"1.{n}.0") for n in range(1, 8)]
    seen, found = Seen(), []
    for _ in range(4):
        asked = ask(deploys, seen, "1.0.0", judged(*found), limit=2)
        assert len(asked.comparisons) <= 2
        found += asked.comparisons
        seen = asked.seen
    assert found == [f"1.{n - 1}.0__1.{n}.0" for n in range(1, 8)]


def test_a_deploy_of_what_failed_before_asks_for_it_again() -> None:
    failed = Comparisons(failed=frozenset({"1.0.0__1.1.0"}))
    asked = ask([FIRST], Seen(), "1.0.0", failed, 5)
    assert (asked.comparisons, asked.asked_by, asked.again) == (
        ("1.0.0__1.1.0",), {"1.0.0__1.1.0": FIRST.name}, {}), "gone on with, not measured afresh"  # fmt: skip
    assert not ask([FIRST], asked.seen, "1.0.0", failed, 5).comparisons, "it is handled, whatever becomes of its run"
    back = ask([Deploy("deploys/3.json", "1.0.0")], asked.seen, "1.0.0", failed, 5)
    assert back.ignored == ("deploys/3.json: 1.0.0 ran before; a record with judge_again: true compares it again",)
    afresh = ask([Deploy("a", "1.1.0", judge_again=True)], Seen(), "1.0.0", failed, 5)
    assert afresh.again == {"1.0.0__1.1.0": "a"}


def test_a_build_is_asked_for_once_also_when_its_comparison_failed() -> None:
    build = Deploy("build 1.1.0", "1.1.0", baseline="1.0.0", runs=False)
    assert ask([build], Seen(), "1.0.0", NONE, 5).asked_by == {}
    asked = ask([build], Seen(), "1.0.0", Comparisons(failed=frozenset({"1.0.0__1.1.0"})), 5)
    assert asked.comparisons == () and asked.seen.handled == {"build 1.1.0"}
    assert asked.ignored == ("build 1.1.0: a comparison of 1.1.0 was asked for before, and a build is asked for once",)


def test_a_deploy_of_what_is_being_compared_waits_for_what_becomes_of_it() -> None:
    under_way = Comparisons(under_way=frozenset({"1.0.0__1.1.0"}))
    waits = ask([FIRST, SECOND], Seen(), "1.0.0", under_way, 5)
    assert waits.comparisons == () and "1.1.0 is being compared" in waits.ignored[0]
    seen = Seen.from_text(waits.seen.to_text())
    # In the meantime the source says that it runs.
    failed = ask([FIRST, SECOND], seen, "1.1.0", Comparisons(failed=frozenset({"1.0.0__1.1.0"})), 5)
    assert failed.comparisons == ("1.0.0__1.1.0", "1.1.0__1.2.0")
    passed = ask([FIRST, SECOND], seen, "1.1.0", judged("1.0.0__1.1.0"), 5)
    assert passed.comparisons == ("1.1.0__1.2.0",) and "1.1.0 was compared before" in passed.ignored[0]
    again = ask([Deploy("deploys/2.json", "1.1.0")], Seen("1.1.0"), "1.1.0", under_way, 5)
    assert again.seen.handled and "1.1.0 was running already" in again.ignored[0], "nothing to wait for"


def test_a_first_deploy_that_runs_already_is_kept_until_its_record_says_what_it_replaced() -> None:
    first = ask([FIRST], Seen().looked("1.1.0"), "1.1.0", NONE, 5)
    assert first.comparisons == () and not first.seen.handled
    assert '"baseline"' in first.ignored[0]
    said = ask([Deploy(FIRST.name, "1.1.0", baseline="1.0.0")], first.seen, "1.1.0", NONE, 5)
    assert said.comparisons == ("1.0.0__1.1.0",) and said.seen.current == "1.1.0"
    second = ask([FIRST, SECOND], first.seen, "1.1.0", NONE, 5)
    assert second.comparisons == ("1.1.0__1.2.0",)
    made = Comparisons(under_way=frozenset(second.comparisons))
    for known in (made, judged(*second.comparisons)):
        later = ask([FIRST, SECOND], Seen.from_text(second.seen.to_text()), "1.2.0", known, 5)
        assert later.seen == second.seen and '"baseline"' in later.ignored[0], "the next deploy does not answer it"
        said = ask([Deploy(FIRST.name, "1.1.0", baseline="1.0.0"), SECOND], later.seen, "1.2.0", known, 5)
        assert said.comparisons == ("1.0.0__1.1.0",) and said.seen.current == "1.2.0" and not said.seen.waiting
    compared = ask([FIRST, SECOND], second.seen, "1.2.0", judged("1.0.0__1.1.0"), 5)
    assert FIRST.name in compared.seen.handled and not compared.seen.waiting, "it has been compared since"


def test_the_baseline_of_a_build_or_a_night_is_compared_once_it_is_deployed() -> None:
    build = "1.1.0__1.2.0-dev"  # asked for when the source named the hotfix, before its record came
    deployed = ask([Deploy("deploys/0.json", "1.0.0")], Seen(), "0.9.0", NONE, 5).seen
    for made in (Comparisons(under_way=frozenset({build})), Comparisons(failed=frozenset({build})), judged(build)):
        for seen in (deployed, Seen().looked("1.0.0").looked("1.1.0")):
            asked = ask([FIRST], Seen.from_text(seen.to_text()), "1.1.0", made, 5)
            assert asked.comparisons == ("1.0.0__1.1.0",)
            back = ask([Deploy("deploys/3.json", "1.0.0")], asked.seen, "1.1.0", judged(build, *asked.comparisons), 5)
            assert "1.0.0 was compared before" in back.ignored[0] and not back.comparisons
    lost = ask([FIRST, Deploy("deploys/3.json", "1.0.0")], Seen(), "2.0.0", judged("1.0.0__1.1.0"), 5)
    assert not lost.comparisons, "without its memory too, what a deployed version was compared with ran"
    # A memory from before it knew what ran takes each baseline for deployed, once.
    old = Seen.from_text('{"current": "1.2.0", "handled": []}')
    back = ask([FIRST], old, "1.2.0", judged("1.1.0__1.2.0"), 5)
    assert "1.1.0 was compared before" in back.ignored[0]


def test_a_source_that_moves_before_the_record_is_written_still_tells_what_ran() -> None:
    seen = Seen.from_text(Seen().looked("1.0.0").looked("1.0.0").looked("1.1.0").to_text())
    assert ask([FIRST], seen, "1.1.0", NONE, 5).comparisons == ("1.0.0__1.1.0",)
    assert ask([SECOND], seen, "1.1.0", NONE, 5).comparisons == ("1.1.0__1.2.0",)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=12),
    st.integers(1, 4),
    st.data(),
)
def test_whenever_records_are_mended_the_last_deploy_runs_in_the_end(
    made: list[tuple[int, bool]], limit: int, data: st.DataObject
) -> None:
    deploys = [
        Deploy(f"deploys/{place:03d}", f"1.{version}", judge_again=again) for place, (version, again) in enumerate(made)
    ]
    seen, bad = Seen(), data.draw(st.sets(st.integers(0, len(deploys)), max_size=4))
    for there in range(len(deploys) + 1):
        bad -= data.draw(st.sets(st.sampled_from(sorted(bad)))) if bad else set()
        found = [unreadable(d.name) if place in bad else d for place, d in enumerate(deploys[:there])]
        seen = Seen.from_text(ask(found, seen, "1.0", NONE, limit).seen.to_text())
    for _ in range(len(deploys) + 1):
        seen = ask(deploys, seen, "1.0", NONE, limit).seen
    assert (seen.current or "1.0") == (deploys[-1].version if deploys else "1.0")
    # Where the first that were deployed are what ran at the first look, nobody knows what they replaced.
    names = {deploy.name for deploy in dropwhile(lambda deploy: deploy.version == "1.0", deploys)}
    assert seen.handled == names and set(seen.waiting) == {deploy.name for deploy in deploys} - names


@given(
    st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=12),
    st.integers(1, 4),
    st.data(),
)
def test_how_often_one_looks_makes_no_difference(made: list[tuple[int, bool]], limit: int, data: st.DataObject) -> None:
    deploys = [
        Deploy(f"deploys/{place:03d}", f"1.{version}", judge_again=again) for place, (version, again) in enumerate(made)
    ]
    at_once = ask(deploys, Seen(), "1.0", NONE, limit=100)
    seen, found, there = Seen(), [], 0
    for _ in range(3 * len(deploys) + 1):
        there = data.draw(st.integers(there, len(deploys)))
        asked = ask(deploys[:there], seen, "1.0", judged(*found), limit)
        seen, found = Seen.from_text(asked.seen.to_text()), found + list(asked.comparisons)
        if not data.draw(st.booleans()):  # a tick that was lost after its request was launched is idempotent by key
            continue
    for _ in range(len(deploys) + 1):
        asked = ask(deploys, seen, "1.0", judged(*found), limit)
        seen, found = asked.seen, found + list(asked.comparisons)
    assert seen.current == at_once.seen.current
    assert set(found) == set(at_once.comparisons)


@given(st.lists(st.integers(0, 4), max_size=10), st.data())
def test_whatever_becomes_of_runs_each_record_starts_one_at_most_and_none_is_forgotten(
    made: list[int], data: st.DataObject
) -> None:
    deploys = [Deploy(f"deploys/{place:03d}", f"1.{version}") for place, version in enumerate(made)]
    build = Deploy("build 1.4", "1.4", baseline="1.0", runs=False)
    seen, there, started = Seen("1.0"), 0, []
    ended: dict[str, str] = {}
    failed: set[str] = set()
    for look in range(3 * len(deploys) + 3):
        there = data.draw(st.integers(there, len(deploys))) if look < len(deploys) else len(deploys)
        by_outcome = {
            outcome: frozenset(key for key, became in ended.items() if became == outcome)
            for outcome in ("judged", "under_way", "failed")
        }
        asked = ask([*deploys[:there], build], seen, "1.0", Comparisons(**by_outcome), limit=2)
        seen = Seen.from_text(asked.seen.to_text())
        started += [asked.asked_by.get(key, build.name) for key in asked.comparisons]
        ended |= dict.fromkeys(asked.comparisons, "under_way")
        for key in by_outcome["under_way"]:
            last = look >= 2 * len(deploys)
            ended[key] = data.draw(st.sampled_from(["judged", "failed", *([] if last else ["under_way"])]))
            failed |= {key} if ended[key] == "failed" else set()
    assert seen.handled == {build.name, *(deploy.name for deploy in deploys)} and not seen.waiting
    assert len(started) == len(set(started))
    assert seen.current == (deploys[-1].version if deploys else "1.0")
    if not failed:
        assert len(ended) == len(started), "what came to a verdict is not started again"


def test_records_are_read_in_order_and_bad_ones_are_named(tmp_path: Path) -> None:
    store = LocalObjectStore(tmp_path)
    store.put("deploys/b.json", b'{"version": "1.2.0", "judge_again": true, "by": "ci"}')
    store.put("deploys/a.json", b'{"version": "1.1.0", "baseline": "1.0.0"}')
    store.put("deploys/c.json", b"{")
    store.put("deploys/d.json", b'{"version": "a__b"}')
    store.put("deploys/e.json", b"\xff")
    deploys, names, problems = read_deploys(store, handled=[])
    assert deploys == [
        Deploy("deploys/a.json", "1.1.0", "1.0.0"),
        Deploy("deploys/b.json", "1.2.0", judge_again=True),
        *(Deploy(f"deploys/{letter}.json", None) for letter in "cde"),
    ]
    assert names == [f"deploys/{letter}.json" for letter in "abcde"]
    assert [problem.where for problem in problems] == [str(tmp_path / f"deploys/{letter}.json") for letter in "cde"]
    assert "version: " in problems[1].what
    assert read_deploys(store, handled=["deploys/a.json"])[0] == deploys[1:]


def test_names_of_deploys_that_are_gone_are_forgotten() -> None:
    assert forget(Seen("1.1.0", waiting={"a": "1.0.0", "b": "1.1.0"}), ["b"]) == Seen("1.1.0", waiting={"b": "1.1.0"})
    assert forget(Seen("1.1.0", frozenset({"a", "b"})), ["b", "c"]) == Seen("1.1.0", frozenset({"b"}))
