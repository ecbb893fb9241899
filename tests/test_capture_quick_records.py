"""Records read quickly are the records that kafka-python reads."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.consumer.fetcher import Fetcher, IsolationLevel
from kafka.errors import CorruptRecordError
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords
from kafka.structs import TopicPartition

from perf_pipeline.capture.quick_records import QuickPartitionRecords, records_of

AT = TopicPartition("access", 0)
RECORDS = st.lists(
    st.tuples(
        st.integers(0, 2**40),
        st.none() | st.binary(max_size=200),
        st.none() | st.binary(max_size=20_000),
        st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3),
        st.integers(1, 400),
    ),
    min_size=1,
    max_size=20,
)


def batch_of(records: list[tuple[Any, ...]], codec: int = 0, base_offset: int = 0) -> bytes:
    """A batch as a broker sends it, with the gaps that the last field of each record asks for."""
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=codec, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1,
        batch_size=10**9,
    )  # fmt: skip
    offset = 0
    for time_ms, key, value, headers, step in records:
        builder.append(offset, time_ms, key, value, headers)
        offset += step
    data = bytearray(builder.build())
    data[:8] = base_offset.to_bytes(8, "big")
    return bytes(data)


def read(kind: type, data: bytes, start: int = 0) -> tuple[list[tuple[int, int, bytes | None]], int]:
    part = kind(start, AT, MemoryRecords(data), None, None, True, IsolationLevel.READ_COMMITTED)
    found = []
    while part:
        taken = part.take(3)
        found += [(each.offset, each.timestamp, each.value) for each in taken]
    return found, part.next_fetch_offset


@given(st.lists(RECORDS, min_size=1, max_size=3), st.sampled_from([0, 1, 2, 3, 4]), st.integers(0, 3000))
def test_they_are_what_the_consumer_returns(batches: list[list[tuple[Any, ...]]], codec: int, start: int) -> None:
    data = b"".join(batch_of(records, codec, 10_000 * number) for number, records in enumerate(batches))
    assert read(QuickPartitionRecords, data, start) == read(Fetcher.PartitionRecords, data, start)


def test_the_broker_s_time_is_that_of_all_its_records() -> None:
    data = bytearray(batch_of([(5, None, b"a", [], 1), (9, None, b"b", [], 1)]))
    data[22] |= 0x08
    times = [record.timestamp for record in records_of(DefaultRecordBatch(bytes(data)))]
    assert times == [9, 9]


def test_a_wrong_checksum_is_told() -> None:
    data = bytearray(batch_of([(5, None, b"some value", [], 1)]))
    data[-4] ^= 1
    with pytest.raises(CorruptRecordError, match="checksum"):
        read(QuickPartitionRecords, bytes(data))


@pytest.mark.parametrize("harm", ["cut", "longer", "length"])
def test_a_batch_that_is_not_what_it_says_is_told(harm: str) -> None:
    data = bytearray(batch_of([(5, None, b"some value", [], 1), (6, None, b"another", [], 1)]))
    if harm == "cut":
        del data[-9:]
    elif harm == "longer":
        data += b"\0\0"
    else:
        data[61] = 4  # the length of the first record
    with pytest.raises(CorruptRecordError):
        list(records_of(DefaultRecordBatch(bytes(data))))
