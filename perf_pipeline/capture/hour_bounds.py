"""Where the hours of a topic begin: offsets that are recorded once and hold for ever.

What belongs here: from the times of records to fixed ranges of offsets. A full hour has three offsets in each
partition: that of the first record from the full hour on, and those a margin before and after it, for lines that are on
their way while the hour ends. Nobody can ask a broker for them twice: records expire, a quiet partition grows. So
whoever needs them first writes them into the object store, with a conditional write, and everybody else reads them
there. They are written hour by hour without a gap, so that the hours of a partition tile it: every record lies in
exactly one.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from perf_pipeline.capture.hours import hour_folder, hour_of, hour_start_s
from perf_pipeline.capture.kafka_topic import Topic
from perf_pipeline.errors import InputError, Problem
from perf_pipeline.storage import ObjectStore

MARGIN_S = 300
"""Seconds by which the line of an hour may come late or early and still be landed by the hour's own run."""
MARGIN_MAX_S = 1800
_HOUR_S = 3600


@dataclass(frozen=True)
class HourStart:
    """A full hour in one partition: offsets of the first records from a margin before it, it, and a margin after it."""

    before: int
    at: int
    after: int


@dataclass(frozen=True)
class HourRange:
    """The hour of one partition. Both ends are full hours."""

    start: HourStart
    end: HourStart

    @property
    def read(self) -> tuple[int, int]:
        """Offsets that are read for the hour: from the first, to before the second."""
        return self.start.before, self.end.after

    def came_in(self, offset: int) -> bool:
        """Whether a record came in this hour."""
        return self.start.at <= offset < self.end.at

    def owns(self, offset: int, hours_later: int) -> bool:
        """Whether the hour's run lands a line whose own hour is so many hours later (0: this one; below 0: earlier).

        Of all runs exactly one owns a line: that of its own hour if this run reads its offset; otherwise that of the
        hour in which its record came.
        """
        if hours_later == 0:
            return self.start.before <= offset < self.end.after
        if not self.came_in(offset):
            return False
        if hours_later == -1:
            return offset >= self.start.after
        return hours_later != 1 or offset < self.end.before


def hour_ranges(
    store: ObjectStore, topic: Topic, hour: str, now_s: float, margin_s: int = MARGIN_S
) -> dict[int, HourRange]:
    """Per partition the range of an hour in UTC such as `2026-11-30-04:00`; empty when it is before the topic's first.

    Records what was not recorded before. Raises InputError when the hour, with its margin, is not over at `now_s`, or
    when the topic never held a record.
    """
    start_s = hour_start_s(hour)
    end_s = start_s + _HOUR_S
    start, end = (_recorded(store, topic.name, time_s) for time_s in (start_s, end_s))
    if start is None or end is None:
        if now_s < end_s + margin_s:
            over = datetime.fromtimestamp(end_s + margin_s, UTC)
            raise InputError(Problem(hour, "is still being written", f"land it from {over:%Y-%m-%d %H:%M} UTC on"))
        hours = _record_up_to(store, topic, end_s, margin_s)
        start, end = hours.get(start_s), hours.get(end_s)
    if start is None or end is None:
        return {}
    # A partition that was added later has no start yet: it begins at its first record.
    return {part: HourRange(start.get(part, HourStart(0, 0, 0)), at) for part, at in sorted(end.items())}


def _record_up_to(store: ObjectStore, topic: Topic, end_s: int, margin_s: int) -> dict[int, dict[int, HourStart]]:
    """Record each full hour from the last recorded one, or the topic's first, up to one; the last ones of them."""
    known = [time_s for time_s in _recorded_times(store, topic.name) if time_s <= end_s]
    if known:
        last_s = known[-1]
        hours = {time_s: _recorded(store, topic.name, time_s) or {} for time_s in known[-2:]}
    else:
        first_s = topic.first_time_s()
        if first_s is None:
            raise InputError(Problem(f"topic {topic.name}", "holds no records", "see that the shipper writes to it"))
        # From the hour before it on: the first records may hold lines that are a little older than they are.
        last_s = int(first_s) - int(first_s) % _HOUR_S - 2 * _HOUR_S
        hours = {}
    for time_s in range(last_s + _HOUR_S, end_s + 1, _HOUR_S):
        hours[time_s] = _record(store, topic, time_s, margin_s, hours.get(time_s - _HOUR_S, {}))
    return hours


def _record(
    store: ObjectStore, topic: Topic, time_s: int, margin_s: int, hour_before: Mapping[int, HourStart]
) -> dict[int, HourStart]:
    """The starts of a full hour: as they are now, or as somebody recorded them just before."""
    # Asked before the others: a record that comes in between then lies behind all three, or is found.
    ends = topic.end_offsets()
    found = [topic.offsets_at(time_s + shift) for shift in (-margin_s, 0, margin_s)]
    starts = {}
    for part, end in ends.items():
        # Producers' clocks differ, so offsets of rising times need not rise; the starts of hours always do.
        least = hour_before[part].after if part in hour_before else 0
        offsets = [end if (offset := at.get(part)) is None else offset for at in found]
        starts[part] = _rising(offsets, least)
    data = json.dumps({part: [each.before, each.at, each.after] for part, each in sorted(starts.items())}).encode()
    if store.put_new(_key(topic.name, time_s), data + b"\n"):
        return starts
    return _recorded(store, topic.name, time_s) or {}


def _rising(offsets: list[int], least: int) -> HourStart:
    before = max(least, offsets[0])
    at = max(before, offsets[1])
    return HourStart(before, at, max(at, offsets[2]))


def _folder(topic: str) -> str:
    return f"raw/{topic}/hour_starts"


def _key(topic: str, time_s: int) -> str:
    return f"{_folder(topic)}/{hour_folder(hour_of(time_s))}.json"


def _recorded_times(store: ObjectStore, topic: str) -> list[int]:
    """The full hours that are recorded, in unix seconds, sorted."""
    names = (key.removeprefix(_folder(topic)) for key in store.keys(_folder(topic)))
    times = (datetime.strptime(name, "/dt=%Y-%m-%d/hour=%H.json").replace(tzinfo=UTC) for name in names)
    return sorted(int(each.timestamp()) for each in times)


def _recorded(store: ObjectStore, topic: str, time_s: int) -> dict[int, HourStart] | None:
    """The starts of a full hour per partition; None when they are not recorded yet."""
    try:
        parts = json.loads(store.get(_key(topic, time_s)))
        return {int(part): HourStart(*offsets) for part, offsets in parts.items()}
    except KeyError:
        return None
    except (ValueError, TypeError, AttributeError) as error:
        remedy = "restore it from a version of the bucket: without it nobody knows which hours are landed"
        raise InputError(Problem(store.uri(_key(topic, time_s)), "is damaged", remedy)) from error
