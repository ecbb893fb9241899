"""Accepted requests of an hour in order of arrival, each request id once, in bounded memory.

What belongs here: sorting and deduplicating tables with the schema `sieve.ACCEPTED`. Log lines come in order of
completion, shuffled by buffers and shippers, and everything before the object store is at-least-once. Rows are gathered
and sorted; when there are many, they go to a file in a working folder, and windows of all files are merged at the end.
What stays in memory is one gathering and one window, however many requests there are.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perf_pipeline.capture.lines import Positions
from perf_pipeline.capture.sieve import ACCEPTED, only_used

_GATHERED = ACCEPTED.insert(0, pa.field("place", pa.int64(), nullable=False))
_LINE_BITS = 32
_HEADS_AT_ONCE = 4_000_000
_SAMPLES_PER_WINDOW = 64


class ArrivalOrder:
    """Takes the accepted requests of each object, and gives them back in order of arrival."""

    def __init__(self, folder: Path, run_rows: int = 1_000_000) -> None:
        """Keep full runs as files in `folder`; a run is full with `run_rows` rows."""
        self._folder = folder
        self._run_rows = run_rows
        self._gathered: list[pa.Table] = []
        self._gathered_rows = 0
        self._runs: list[Path] = []
        self._heads: list[NDArray[np.uint64]] = []

    def add(self, number: int, accepted: pa.Table) -> None:
        """Take the accepted requests of the object with this number, from 0; lower numbers come first."""
        place = np.int64(number << _LINE_BITS) + accepted["line"].to_numpy()
        self._gathered.append(accepted.add_column(0, _GATHERED.field("place"), pa.array(place)))
        self._gathered_rows += len(accepted)
        if self._gathered_rows >= self._run_rows:
            self._write_run()

    def _write_run(self) -> None:
        run = self._take_gathered()
        path = self._folder / f"run-{len(self._runs)}.arrow"
        with pa.ipc.new_file(path, run.schema) as writer:
            writer.write_table(run)
        self._runs.append(path)
        # The heads of the ids, sorted, are read back in pieces.
        heads = self._folder / f"heads-{len(self._heads)}.npy"
        np.save(heads, np.sort(_id_words(run)[:, 0]))
        self._heads.append(np.load(heads, mmap_mode="r"))

    def _take_gathered(self) -> pa.Table:
        tables, self._gathered, self._gathered_rows = self._gathered, [], 0
        table = pa.concat_tables(tables) if tables else _GATHERED.empty_table()
        return _sorted(table.unify_dictionaries().combine_chunks())

    def merge(self, window_rows: int) -> "Merged":
        """All requests taken so far, each request id once; to be read in windows of about `window_rows` rows."""
        runs = [pa.ipc.open_file(pa.memory_map(str(path))).read_all() for path in self._runs]
        last = self._take_gathered()
        runs.append(last)
        heads = [*self._heads, np.sort(_id_words(last)[:, 0])]
        return Merged(runs, _duplicates(runs, heads), window_rows)


def _duplicates(runs: list[pa.Table], heads: list[NDArray[np.uint64]]) -> Positions:
    """The places of all requests whose request id came before, sorted.

    `heads` are the first eight bytes of the ids of each run, sorted: where two are the same, the ids are compared.
    """
    doubled = _doubled(heads)
    if not len(doubled):
        return np.zeros(0, np.int64)
    words, places = [], []
    for run in runs:
        run_words = _id_words(run)
        suspects = np.isin(run_words[:, 0], doubled)
        words.append(run_words[suspects])
        places.append(run["place"].to_numpy()[suspects])
    ids, place = np.concatenate(words), np.concatenate(places)
    order = np.lexsort((place, ids[:, 1], ids[:, 0]))
    ids, place = ids[order], place[order]
    return np.sort(place[1:][(ids[1:] == ids[:-1]).all(axis=1)])


def _doubled(heads: list[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """The numbers that stand more than once in all of the sorted arrays, looked for in one range after the other."""
    ranges = 1 + sum(map(len, heads)) // _HEADS_AT_ONCE
    found = [np.zeros(0, np.uint64)]
    starts = [0] * len(heads)
    for number in range(1, ranges + 1):
        # Request ids are random, so equal ranges hold about as many.
        ends = [
            len(each) if number == ranges else int(np.searchsorted(each, np.uint64(number * 2**64 // ranges)))
            for each in heads
        ]
        pieces = [each[start:end] for each, start, end in zip(heads, starts, ends, strict=True)]
        together = np.sort(np.concatenate(pieces))
        found.append(np.unique(together[1:][together[1:] == together[:-1]]))
        starts = ends
    return np.concatenate(found)


class Merged:
    """Sorted runs, read as one."""

    def __init__(self, runs: list[pa.Table], duplicates: Positions, window_rows: int) -> None:
        """Leave out the requests whose places are in `duplicates`."""
        self._runs = runs
        self._window_rows = window_rows
        self.duplicates = duplicates
        """Places of the requests that are left out, sorted; see `places_to_lines`."""

    def windows(self) -> Iterator[pa.Table]:
        """Tables with schema `sieve.ACCEPTED`, each sorted by arrival and request id.

        No request of a window arrived before one of an earlier window.
        """
        arrivals = [_arrivals(run) for run in self._runs]
        cuts = self._cuts(arrivals)
        starts = [0] * len(arrivals)
        for cut in [*cuts.tolist(), None]:
            ends = [len(arrival) if cut is None else int(np.searchsorted(arrival, cut)) for arrival in arrivals]
            # A run has rows in few windows, and the texts of these are few of its texts.
            parts = [
                _only_used_texts(run.slice(start, end - start))
                for run, start, end in zip(self._runs, starts, ends, strict=True)
                if end > start
            ]
            starts = ends
            window = pa.concat_tables(parts or [_GATHERED.empty_table()])
            if len(parts) > 1:
                window = _sorted(window.unify_dictionaries().combine_chunks())
            if len(self.duplicates):
                window = window.filter(pa.array(np.isin(window["place"].to_numpy(), self.duplicates, invert=True)))
            if len(window):
                yield window.drop_columns("place")

    def _cuts(self, arrivals: list[NDArray[np.int64]]) -> NDArray[np.int64]:
        """The arrivals at which windows begin, from a sample of each run."""
        step = max(1, self._window_rows // _SAMPLES_PER_WINDOW)
        samples = np.sort(np.concatenate([arrival[::step] for arrival in arrivals]))
        every = max(1, self._window_rows // step)
        return np.unique(samples[every::every])


def _arrivals(run: pa.Table) -> NDArray[np.int64]:
    """The arrivals of a run: a view into its file, where a column's own `to_numpy` would be a copy in memory."""
    column = run["arrival_ms"]
    return column.chunk(0).to_numpy() if column.num_chunks == 1 else column.to_numpy()


def _only_used_texts(rows: pa.Table) -> pa.Table:
    """The rows, with dictionaries of the texts that occur in them."""
    columns = [
        only_used(column.combine_chunks()) if pa.types.is_dictionary(column.type) else column for column in rows.columns
    ]
    return pa.table(columns, schema=rows.schema)


def _sorted(table: pa.Table) -> pa.Table:
    """The rows by arrival, and by request id where several arrived in one millisecond."""
    arrival = table["arrival_ms"].to_numpy()
    order = np.argsort(arrival, kind="stable")
    same = np.diff(arrival[order]) == 0
    tied = np.concatenate([same, [False]]) | np.concatenate([[False], same])
    if same.any():
        # Few rows are tied: only they are looked at again.
        rows = order[tied]
        words = _id_words(table)[rows]
        order[tied] = rows[np.lexsort((words[:, 1], words[:, 0], arrival[rows]))]
    return table.take(pa.array(order))


def places_to_lines(places: Positions) -> tuple[Positions, Positions]:
    """The numbers of the objects, and of the lines in them, both from 0, that places stand for."""
    return places >> _LINE_BITS, places & (2**_LINE_BITS - 1)


def _id_words(table: pa.Table) -> NDArray[np.uint64]:
    """The request ids as rows of two big-endian words, so that they sort as their text does."""
    if not len(table):
        return np.zeros((0, 2), np.uint64)
    ids = table["request_id"].combine_chunks()
    start = 16 * ids.offset
    return np.frombuffer(ids.buffers()[1], ">u8", 2 * len(ids), start).astype(np.uint64).reshape(-1, 2)
