"""Landing from Kafka: each line once, in its own hour, whatever happens in between."""

import base64
import json
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perf_pipeline.capture import hour_writer
from perf_pipeline.capture.hours import hour_of
from perf_pipeline.capture.kafka_landing import HourLanding, land_hour, part_from_json, part_to_json
from perf_pipeline.capture.raw_objects import landed_objects, read_object
from perf_pipeline.capture.record_lines import RECORD_BYTES_MAX
from perf_pipeline.errors import InputError
from perf_pipeline.storage import LocalObjectStore
from tests.access_log_lines import HOUR, HOUR_START_S, line
from tests.kafka_topics import FakeRecord, FakeTopic, records

HOUR_S = 3600
MARGIN_S = 60
NEXT = "2026-11-30-05:00"
LATER_S = HOUR_START_S + 40 * HOUR_S


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hour_writer, "OBJECT_OFFSETS", 10)


@pytest.fixture
def store(tmp_path: Path) -> LocalObjectStore:
    return LocalObjectStore(tmp_path / "store")


def at(seconds: float, number: int = 0, **fields: str) -> bytes:
    """A line that was written so many seconds after the hour began."""
    return line(msec=f"{HOUR_START_S + seconds:.3f}", rid=f"{number:032x}", **fields)


def came(seconds: float, value: bytes | None) -> tuple[float, bytes | None]:
    return HOUR_START_S + seconds, value


def land(store: Any, topic: FakeTopic, hour: str = HOUR, **options: Any) -> HourLanding:
    return land_hour(store, topic, hour, **({"margin_s": MARGIN_S, "now_s": LATER_S} | options))


def landed(store: LocalObjectStore, hour: str = HOUR) -> list[bytes]:
    keys = landed_objects(store, "access", hour)
    return [each for key in keys for each in read_object(store, key).to_pybytes().splitlines()]


def quarantine(store: LocalObjectStore) -> list[dict[str, Any]]:
    keys = [key for key in store.keys("raw/access") if "/quarantine/" in key]
    return [json.loads(each) for key in keys for each in read_object(store, key).to_pybytes().splitlines()]


def test_the_lines_of_an_hour_are_landed_as_they_came(store: LocalObjectStore) -> None:
    lines = [at(number * 100, number) for number in range(25)]
    topic = FakeTopic([records(*(came(number * 100 + 1, each) for number, each in enumerate(lines)))])
    report = land(store, topic)
    assert landed(store) == lines
    folder = "raw/access/dt=2026-11-30/hour=04/part=0"
    assert report.parts[0].objects == tuple(f"{folder}/{first:020d}.ndjson.zst" for first in (0, 10, 20))
    assert (report.lines, report.records, report.strays, report.quarantined) == (25, 25, {}, {})
    assert report.bytes == sum(len(each) + 1 for each in lines)
    assert report.first is not None and report.first.timestamp() == HOUR_START_S
    assert report.last is not None and report.last.timestamp() == HOUR_START_S + 2400
    assert topic.committed == {0: 25}
    assert part_from_json(part_to_json(report.parts[0])) == report.parts[0]


def test_what_is_landed_is_not_read_again_and_stays_as_it_is(store: LocalObjectStore) -> None:
    topic = FakeTopic([records(*(came(number, at(number, number)) for number in range(25)))])
    report = land(store, topic)
    before = {key: store.get(key) for key in store.keys("")}
    topic.parts[0] += records(came(30, at(30, 99)), first=25)
    assert land(store, topic).parts == report.parts
    assert {key: store.get(key) for key in store.keys("")} == before
    assert len(topic.was_read) == 1
    assert landed(store) == [at(number, number) for number in range(25)]


def test_an_object_that_is_gone_comes_again(store: LocalObjectStore) -> None:
    topic = FakeTopic([records(*(came(number, at(number, number)) for number in range(25)))])
    report = land(store, topic)
    before = store.get(report.parts[0].objects[1])
    store.delete(report.parts[0].objects[1])
    land(store, topic)
    assert store.get(report.parts[0].objects[1]) == before


def test_lines_on_their_way_at_the_full_hour_belong_to_their_own_run(store: LocalObjectStore) -> None:
    """Each hour is complete when its own run is done, in whichever order the runs come."""
    topic = FakeTopic(
        [
            records(
                came(3590, at(3590, 1)),
                came(3595, at(3601, 2)),  # this host's clock is ahead
                came(3605, at(3599, 3)),  # on its way while the hour ended
                came(3610, at(3609, 4)),
                came(3655, at(3598, 5)),
                came(3670, at(3669, 6)),
            )
        ]
    )
    assert land(store, topic, NEXT).strays == {}
    assert landed(store, NEXT) == [at(3601, 2), at(3609, 4), at(3669, 6)]
    assert land(store, topic).strays == {}
    assert landed(store) == [at(3590, 1), at(3599, 3), at(3598, 5)]


def test_a_line_that_comes_later_goes_to_its_own_hour_and_is_told(store: LocalObjectStore) -> None:
    topic = FakeTopic(
        [records(came(10, at(10, 1)), came(3700, at(3699, 2)), came(3800, at(20, 3)), came(3900, at(-90_000, 4)))]
    )
    assert land(store, topic).strays == {}
    assert landed(store) == [at(10, 1)]
    report = land(store, topic, NEXT)
    assert report.strays == {"2026-11-29-03:00": 1, HOUR: 1}
    assert landed(store) == [at(10, 1), at(20, 3)]
    assert landed(store, "2026-11-29-03:00") == [at(-90_000, 4)]
    assert landed(store, NEXT) == [at(3699, 2)]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\xff\xfe not a line", "neither UTF-8 nor JSON"),
        (b"192.0.2.1 - - [30/Nov/2026:04:00:00 +0000]", "no JSON object"),
        (at(5, 5)[:-20], "no JSON object"),
        (at(5, 5) + b"}", "no JSON object"),
        (b"[1]", "no JSON object"),
        (b"17", "no JSON object"),
        (b"", "no line in it"),
        (b" \n", "no line in it"),
        (None, "no line in it"),
        (at(5, 5) + b"\n" + at(6, 6), "several lines in it"),
        (at(5, 5).replace(b"{", b"{\n", 1), "several lines in it"),
        (at(5, 5, uri="/" + "x" * RECORD_BYTES_MAX), "longer than 256 KiB"),
        (b"x" * (RECORD_BYTES_MAX + 1), "longer than 256 KiB"),
    ],
)
def test_a_record_without_a_line_is_set_aside_and_its_neighbours_are_whole(
    value: bytes | None, reason: str, store: LocalObjectStore
) -> None:
    topic = FakeTopic([records(came(1, at(1, 1)), came(2, value), came(3, at(3, 3)))])
    report = land(store, topic)
    assert landed(store) == [at(1, 1), at(3, 3)]
    assert report.quarantined == {reason: 1}
    (entry,) = quarantine(store)
    assert (entry["topic"], entry["partition"], entry["offset"], entry["reason"]) == ("access", 0, 1, reason)
    assert (None if entry["value"] is None else base64.b64decode(entry["value"])) == value
    assert topic.committed == {0: 3}


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_a_newline_at_the_end_of_a_record_is_the_line_s(ending: bytes, store: LocalObjectStore) -> None:
    topic = FakeTopic([records(came(1, at(1, 1) + ending), came(2, at(2, 2)))])
    assert land(store, topic).quarantined == {}
    assert landed(store) == [at(1, 1), at(2, 2)]


def test_bytes_of_a_request_that_are_not_utf8_are_landed_as_they_came(store: LocalObjectStore) -> None:
    odd = at(2, 2).replace(b"/products", b"/caf\xe9\xff")
    topic = FakeTopic([records(came(1, at(1, 1)), came(2, odd), came(3, at(3, 3)))])
    assert land(store, topic).quarantined == {}
    assert landed(store) == [at(1, 1), odd, at(3, 3)]


def test_a_line_without_a_time_goes_by_its_record(store: LocalObjectStore) -> None:
    untold = b'{"v":"1","uri":"/x"}'
    topic = FakeTopic([records(came(1, at(1, 1)), came(2, untold))])
    topic.parts[0].append(FakeRecord(2, -1, untold))
    assert land(store, topic).quarantined == {"no time in it nor in the record": 1}
    assert landed(store) == [at(1, 1), untold]


def test_gaps_in_the_offsets_are_no_loss(store: LocalObjectStore) -> None:
    whole = records(*(came(number, at(number, number)) for number in range(60)))
    kept = [each for each in whole if each.offset % 7 in (1, 5) and not 20 <= each.offset < 40]
    topic = FakeTopic([kept], batch=3)
    report = land(store, topic)
    assert landed(store) == [each.value for each in kept]
    assert (report.lines, report.expired) == (len(kept), 0)


def test_records_that_expired_are_told(store: LocalObjectStore) -> None:
    topic = FakeTopic([records(*(came(number, at(number, number)) for number in range(30)))])
    land(store, topic, "2026-11-30-03:00")  # it records where the hours begin
    topic.starts[0] = 12
    report = land(store, topic)
    assert report.expired == 12
    assert landed(store) == [at(number, number) for number in range(12, 30)]


def test_an_hour_is_not_landed_before_it_is_over(store: LocalObjectStore) -> None:
    topic = FakeTopic([records(came(1, at(1, 1)))])
    with pytest.raises(InputError, match="land it from 2026-11-30 05:01 UTC on"):
        land(store, topic, now_s=HOUR_START_S + 3659)
    assert store.keys("") == []
    assert land(store, topic, now_s=HOUR_START_S + 3660).lines == 1


def test_a_topic_that_begins_later_and_one_without_records(store: LocalObjectStore) -> None:
    topic = FakeTopic([records(came(1, at(1, 1)))])
    with pytest.raises(InputError, match="begins after it"):
        land(store, topic, "2026-11-29-04:00")
    with pytest.raises(InputError, match="holds no records"):
        land(store, FakeTopic([[]], name="empty"))
    with pytest.raises(InputError, match="is not an hour"):
        land(store, topic, "yesterday")


def test_a_quiet_partition_and_a_new_one(store: LocalObjectStore) -> None:
    topic = FakeTopic([records(came(1, at(1, 1))), records(came(2, at(2, 2)), came(4000, at(3999, 3)))])
    land(store, topic)
    topic.parts[0] += records(came(3700, at(3699, 4)), first=1)
    topic.parts.append(records(came(3650, at(3650, 5))))
    report = land(store, topic, NEXT)
    assert sorted(landed(store, NEXT)) == sorted([at(3699, 4), at(3999, 3), at(3650, 5)])
    assert report.lag == 0 and topic.committed == {0: 2, 1: 2, 2: 1}


def test_lag_is_what_came_after_the_hour(store: LocalObjectStore) -> None:
    topic = FakeTopic([records(came(1, at(1, 1)), *(came(3601 + number, at(3601, number)) for number in range(5)))])
    assert land(store, topic).lag == 5


def test_a_topic_made_anew_under_its_old_name_is_an_error(store: LocalObjectStore) -> None:
    topic = FakeTopic([records(*(came(number, at(number, number)) for number in range(5)))])
    report = land(store, topic)
    store.delete(f"{report.parts[0].objects[0].rpartition('/')[0]}/manifest.json")
    topic.parts[0] = records(*(came(number, at(number, number + 50)) for number in range(5)))
    with pytest.raises(InputError, match="holds other lines than the topic has there now"):
        land(store, topic)


def test_records_compacted_away_between_two_attempts_change_nothing(store: LocalObjectStore) -> None:
    topic = FakeTopic([records(*(came(number, at(number, number)) for number in range(25)))])
    report = land(store, topic)
    store.delete(f"{report.parts[0].objects[0].rpartition('/')[0]}/manifest.json")
    topic.parts[0] = [each for each in topic.parts[0] if each.offset not in (0, 5, 10, 24)]
    assert land(store, topic).lines == 25
    assert landed(store) == [at(number, number) for number in range(25)]


def test_very_long_lines_end_an_object_early(store: LocalObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hour_writer, "OBJECT_BYTES", 1000)
    lines = [at(number, number) for number in range(12)]
    for batch in (1, 5, 12):
        topic = FakeTopic([records(*(came(number, each) for number, each in enumerate(lines)))], batch=batch)
        parts = land(store, topic).parts
        assert [int(Path(key).name[:20]) for key in parts[0].objects] == [0, 3, 6, 9, 10]
        assert landed(store) == lines
        store.delete("raw")


def test_runs_at_the_same_time_agree_on_where_hours_begin(store: LocalObjectStore) -> None:
    """Each hour is landed by three runs at once, while the topic grows: still each line once."""
    hours = [hour_of(HOUR_START_S + shift * HOUR_S) for shift in range(-1, 6)]
    written = [(number * 50, at(number * 50 - 30, number)) for number in range(400)]
    whole = records(*(came(*each) for each in written))
    part = whole[:396]
    topics = [FakeTopic([part], batch=size) for size in (3, 10, 17)]
    failures: list[BaseException] = []

    def run(topic: FakeTopic, hour: str) -> None:
        try:
            land(store, topic, hour)
        except BaseException as failure:
            failures.append(failure)

    runs = [threading.Thread(target=run, args=(topic, hour)) for hour in hours for topic in topics]
    for each in runs:
        each.start()
        part += whole[len(part) : len(part) + 1]
    for each in runs:
        each.join()
    assert not failures
    found = [each for hour in hours for each in landed(store, hour)]
    assert Counter(found) == Counter(value for _, value in written[: len(found)])
    assert len(found) >= 396


def test_a_damaged_start_of_an_hour_is_told(store: LocalObjectStore) -> None:
    topic = FakeTopic([records(came(1, at(1, 1)))])
    land(store, topic)
    store.put("raw/access/hour_starts/dt=2026-11-30/hour=05.json", b"{")
    with pytest.raises(InputError, match=r"hour=05\.json: is damaged"):
        land(store, topic)


def test_a_damaged_manifest_is_told(store: LocalObjectStore) -> None:
    topic = FakeTopic([records(came(1, at(1, 1)))])
    land(store, topic)
    store.put("raw/access/dt=2026-11-30/hour=04/part=0/manifest.json", b"[]")
    with pytest.raises(InputError, match="is no manifest of a landing from Kafka"):
        land(store, topic)


class Killed(BaseException):
    """What a test stops a landing with: nothing in the library may catch it."""


class KillingStore:
    """A store that stops its user right before, or right after, one of its writes."""

    def __init__(self, store: LocalObjectStore, step: int) -> None:
        self._store, self._left = store, step

    def put_new(self, key: str, data: bytes) -> bool:
        self._step()
        done = self._store.put_new(key, data)
        self._step()
        return done

    def _step(self) -> None:
        if self._left == 0:
            raise Killed
        self._left -= 1

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return getattr(self._store, name)


def odd_topic(batch: int = 4) -> FakeTopic:
    """Two partitions over two hours with everything in them."""
    parts = []
    for part in (0, 1):
        values = [
            came(
                number * 200,
                [at(number * 200, number + 100 * part), at(number * 200 - 5000, number), b"no line", None][
                    0 if number % 5 else (number // 5) % 4
                ],
            )
            for number in range(34)
        ]
        parts.append(records(*values))
    return FakeTopic(parts, batch=batch)


def test_killed_at_every_step_and_run_again_it_leaves_the_same(tmp_path: Path) -> None:
    whole = LocalObjectStore(tmp_path / "whole")
    hours = ("2026-11-30-03:00", HOUR, NEXT)
    for hour in hours:
        land(whole, odd_topic(), hour)
    expected = {key: whole.get(key) for key in whole.keys("")}
    step, kills = 0, 0
    while True:
        store = LocalObjectStore(tmp_path / f"step-{step}")
        try:
            for hour in hours:
                land(KillingStore(store, step), odd_topic(), hour)
            break
        except Killed:
            kills += 1
        for hour in hours:
            land(store, odd_topic(batch=1 + step % 9), hour)
        assert {key: store.get(key) for key in store.keys("")} == expected
        step += 1
    assert kills > 20


_SECONDS = st.integers(-2 * HOUR_S, 3 * HOUR_S)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_each_record_is_landed_or_set_aside_exactly_once(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever the records' and the lines' times, the batches and the order of the runs."""
    number = 0
    parts, lines = [], Counter[tuple[str, bytes]]()
    bad = 0
    for _ in range(data.draw(st.integers(1, 2))):
        part = []
        offset = 0
        for came_s in data.draw(st.lists(_SECONDS, max_size=30)):
            offset += data.draw(st.sampled_from([1, 1, 1, 2, 9]))
            number += 1
            if data.draw(st.integers(0, 5)) == 0:
                value = data.draw(st.sampled_from([b"no line", None, b"{", b"\xff"]))
                bad += 1
            else:
                written_s = came_s - data.draw(st.sampled_from([0, 1, 1, 30, 90, 4000, -1, -100]))
                value = at(written_s, number)
                lines[hour_of(HOUR_START_S + written_s), value] += 1
            part.append(FakeRecord(offset, (HOUR_START_S + came_s) * 1000, value))
        if data.draw(st.booleans()):
            part = [
                FakeRecord(each.offset, time_ms, each.value)
                for each, time_ms in zip(part, sorted(each.timestamp for each in part), strict=True)
            ]
        parts.append(part)
    if not any(parts):
        return
    store = LocalObjectStore(tmp_path_factory.mktemp("store"))
    topic = FakeTopic(parts, batch=data.draw(st.integers(1, 12)))
    hours = [hour_of(HOUR_START_S + shift * HOUR_S) for shift in range(-6, 7)]
    read_again = data.draw(st.booleans())
    for hour in data.draw(st.permutations(hours)):
        try:
            land(store, topic, hour)
            if read_again:
                land(store, topic, hour)
        except InputError as error:
            assert "begins after it" in str(error)
    found = Counter[tuple[str, bytes]]()
    for shift in range(-12, 12):
        hour = hour_of(HOUR_START_S + shift * HOUR_S)
        try:
            found.update((hour, each) for each in landed(store, hour))
        except InputError:
            continue
    assert found == lines
    assert len(quarantine(store)) == bad
    assert len({(each["partition"], each["offset"]) for each in quarantine(store)}) == bad
