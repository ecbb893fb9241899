import gzip
import json
import socket
from pathlib import Path

import pytest
import zstandard

from perf_pipeline.capture import landing
from perf_pipeline.capture.landing import hours_of_log, land_file
from perf_pipeline.capture.log_file import LINE_BYTES_MAX
from perf_pipeline.capture.raw_objects import landed_objects, manifest_from_json, read_object
from perf_pipeline.errors import InputError
from perf_pipeline.storage import LocalObjectStore
from tests.access_log_lines import HOUR, HOUR_START_S, line, numbered

COMBINED = b'127.0.0.1 - - [30/Nov/2026:04:00:00 +0000] "GET /' + b"x" * 90 + b'" 200 3'
FOLDER = "raw/access/dt=2026-11-30/hour=04"


@pytest.fixture
def store(tmp_path: Path) -> LocalObjectStore:
    return LocalObjectStore(tmp_path / "store")


def log_of(folder: Path, lines: list[bytes], name: str = "access.json") -> Path:
    path = folder / name
    path.write_bytes(b"".join(each + b"\n" for each in lines))
    return path


def landed(store: LocalObjectStore, hour: str = HOUR) -> list[bytes]:
    return b"".join(read_object(store, key).to_pybytes() for key in landed_objects(store, "access", hour)).splitlines()


def contents(store: LocalObjectStore) -> dict[str, bytes]:
    return {key: store.get(key) for key in store.keys("")}


def at(seconds: int) -> bytes:
    return line(msec=f"{HOUR_START_S + seconds}.000")


def test_the_lines_of_an_hour_are_landed_as_they_came(tmp_path: Path, store: LocalObjectStore) -> None:
    lines = [numbered(number) for number in range(5)] + [b"torn \xff\x00 line", b"", numbered(5)]
    manifest = land_file(store, log_of(tmp_path, lines), "access", HOUR)
    assert landed(store) == lines
    assert manifest.objects == (f"{FOLDER}/part=0/{'0' * 20}.ndjson.zst",)
    assert (manifest.lines, manifest.bytes) == (8, sum(len(each) + 1 for each in lines))
    assert manifest.first is not None
    assert manifest.last is not None
    assert (manifest.first.timestamp(), manifest.last.timestamp()) == (HOUR_START_S, HOUR_START_S + 5)
    assert manifest.source == "access.json"
    assert manifest_from_json(store.get(f"{FOLDER}/part=0/manifest.json")) == manifest


def test_what_was_landed_is_its_owners_and_what_a_killed_landing_left_goes(
    tmp_path: Path, store: LocalObjectStore
) -> None:
    left = store.root / f".partial-{2**22 + 1}-1-{socket.gethostname()}-landing"
    left.mkdir()
    land_file(store, log_of(tmp_path, [numbered(0)]), "access", HOUR)
    assert not left.exists()
    modes = {path.stat().st_mode & 0o777 for path in (store.root / FOLDER / "part=0").iterdir()}
    assert modes == {0o600}, "queries hold secrets"


def test_landing_again_writes_the_same_bytes(
    tmp_path: Path, store: LocalObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landing, "OBJECT_LINES", 3)
    log = log_of(tmp_path, [numbered(number) for number in range(10)])
    land_file(store, log, "access", HOUR)
    before = contents(store)
    land_file(store, log, "access", HOUR)
    assert contents(store) == before
    other = LocalObjectStore(tmp_path / "other")
    land_file(other, log, "access", HOUR)
    assert contents(other) == before


def test_objects_are_cut_by_lines_and_named_by_their_first_offset(
    tmp_path: Path, store: LocalObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landing, "OBJECT_LINES", 3)
    lines = [at(-5), *(at(number) for number in range(7)), at(3600), at(8)]
    manifest = land_file(store, log_of(tmp_path, lines), "access", HOUR)
    assert [int(Path(key).name[:20]) for key in manifest.objects] == [1, 4, 7]
    assert [len(read_object(store, key).to_pybytes().splitlines()) for key in manifest.objects] == [3, 3, 2]
    assert landed(store) == [*lines[1:8], lines[9]]


def test_objects_of_long_lines_are_cut_by_bytes(
    tmp_path: Path, store: LocalObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landing, "OBJECT_BYTES", 1000)
    lines = [numbered(number) for number in range(9)]
    manifest = land_file(store, log_of(tmp_path, lines), "access", HOUR)
    assert len(manifest.objects) == 3
    assert landed(store) == lines


def test_a_line_without_a_time_goes_where_the_line_before_it_goes(tmp_path: Path, store: LocalObjectStore) -> None:
    lines = [b"first", b"second", at(0), b"third", at(3600), b"fourth", at(1), b"fifth"]
    log = log_of(tmp_path, lines)
    assert hours_of_log(log) == [HOUR, "2026-11-30-05:00"]
    land_file(store, log, "access", HOUR)
    assert landed(store) == [*lines[:4], *lines[6:]]
    land_file(store, log, "access", "2026-11-30-05:00")
    assert landed(store, "2026-11-30-05:00") == lines[4:6]


def test_a_shorter_log_leaves_nothing_of_the_longer_one(
    tmp_path: Path, store: LocalObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landing, "OBJECT_LINES", 2)
    land_file(store, log_of(tmp_path, [at(number) for number in range(9)]), "access", HOUR)
    land_file(store, log_of(tmp_path, [at(0)]), "access", HOUR)
    assert landed(store) == [at(0)]


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress, lambda data: data])
def test_a_log_may_be_packed_whatever_its_name(pack: object, tmp_path: Path, store: LocalObjectStore) -> None:
    lines = [numbered(number) for number in range(20_000)]
    data = b"".join(each + b"\n" for each in lines)
    log = tmp_path / "access.log"
    log.write_bytes(pack(data[:-1]))
    land_file(store, log, "access", HOUR)
    assert landed(store) == lines
    log.write_bytes(pack(data[:1000]) + pack(data[1000:]))
    land_file(store, log, "access", HOUR)
    assert landed(store) == lines


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress])
@pytest.mark.parametrize("lost", [1, 200])
def test_a_packed_log_that_is_cut_off_lands_nothing(
    pack: object, lost: int, tmp_path: Path, store: LocalObjectStore
) -> None:
    log = tmp_path / "access.json.zst"
    log.write_bytes(pack(b"".join(numbered(number) + b"\n" for number in range(20_000)))[:-lost])
    with pytest.raises(InputError, match="damaged or cut off"):
        land_file(store, log, "access", HOUR)
    assert contents(store) == {}
    assert list(store.root.iterdir()) == []


def test_a_line_without_end_is_cut_and_its_neighbours_are_whole(tmp_path: Path, store: LocalObjectStore) -> None:
    lines = [at(0), b"\0" * (3 * LINE_BYTES_MAX), at(1), b"x" * (LINE_BYTES_MAX + 5)]
    land_file(store, log_of(tmp_path, lines), "access", HOUR)
    assert landed(store) == [at(0), b"\0" * LINE_BYTES_MAX, at(1), b"x" * LINE_BYTES_MAX]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "is empty"),
        ([COMBINED], "is not a JSON access log; it starts with '127.0.0.1 - -"),
        ([b"\xff\xfe\x00"] * 3, "is not a JSON access log"),
        ([b'{"msec":1796012912.006,"up":}'] * 3, "is not a JSON access log"),
        ([b'{"time":"x"}'] * 3, "have no readable msec"),
        ([b"x"] * 1000 + [numbered(1)], "is not a JSON access log"),
    ],
)
def test_what_is_no_json_access_log(lines: list[bytes], message: str, tmp_path: Path, store: LocalObjectStore) -> None:
    log = log_of(tmp_path, lines)
    for call in (lambda: land_file(store, log, "access", HOUR), lambda: hours_of_log(log)):
        with pytest.raises(InputError) as caught:
            call()
        assert message in str(caught.value)
        assert str(log) in str(caught.value)
        assert "log_format" in str(caught.value)
        assert all(len(text) < 400 for text in str(caught.value).splitlines())
    assert contents(store) == {}


def test_one_good_line_among_the_first_thousand_makes_a_log(tmp_path: Path, store: LocalObjectStore) -> None:
    lines = [b"x"] * 999 + [numbered(1)]
    land_file(store, log_of(tmp_path, lines), "access", HOUR)
    assert landed(store) == lines


def test_an_hour_that_the_log_does_not_hold(tmp_path: Path, store: LocalObjectStore) -> None:
    log = log_of(tmp_path, [at(0), at(7200)])
    with pytest.raises(InputError) as caught:
        land_file(store, log, "access", "2026-11-30-05:00")
    assert "holds no line of 2026-11-30-05:00" in str(caught.value)
    assert "2026-11-30-04:00, 2026-11-30-06:00" in str(caught.value)


def test_a_log_that_is_not_there(tmp_path: Path, store: LocalObjectStore) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(InputError, match="cannot be read"):
            land_file(store, path, "access", HOUR)


def test_an_hour_that_was_not_landed(store: LocalObjectStore) -> None:
    with pytest.raises(InputError, match="raw_access_log"):
        landed_objects(store, "access", HOUR)


def test_an_object_that_is_gone_or_damaged_is_not_overlooked(
    tmp_path: Path, store: LocalObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landing, "OBJECT_LINES", 2)
    log = log_of(tmp_path, [numbered(number) for number in range(6)])
    manifest = land_file(store, log, "access", HOUR)
    whole = store.get(manifest.objects[1])
    for damaged in (whole[:-3], whole[:20] + b"\0\0\0" + whole[23:], b"x" + whole, whole + b"x"):
        store.put(manifest.objects[1], damaged)
        with pytest.raises(InputError, match="damaged"):
            read_object(store, manifest.objects[1])
    for gone in manifest.objects[1:]:
        store.delete(gone)
    with pytest.raises(InputError) as caught:
        landed_objects(store, "access", HOUR)
    assert len(caught.value.problems) == 2
    for spoilt in (b"{", b"[]", b"{}", json.dumps({"objects": 1}).encode()):
        store.put(f"{FOLDER}/part=0/manifest.json", spoilt)
        with pytest.raises(InputError, match="not a landing manifest"):
            landed_objects(store, "access", HOUR)


def test_objects_of_several_frames_and_without_a_last_newline_are_read(store: LocalObjectStore) -> None:
    compress = zstandard.ZstdCompressor().compress
    store.put("one", compress(b"a\nb\n") + compress(b"c"))
    assert read_object(store, "one").to_pybytes() == b"a\nb\nc\n"
    store.put("none", b"")
    assert read_object(store, "none").size == 0
