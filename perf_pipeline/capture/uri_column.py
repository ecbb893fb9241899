"""A column of request targets judged at once, with the answers of `uri.UriRules.clean`.

What belongs here: taking URIs apart and putting them together as columns. The rules, which are in `uri` and `query`,
are asked once per distinct path and once per distinct query.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from perf_pipeline.capture.decoding import NOT_IN_PATH, encode_path
from perf_pipeline.capture.uri import A_NUMBER, MAX_BYTES, SHAPED_BYTES_MAX, UriRules


@dataclass(frozen=True)
class CleanColumn:
    """Per URI of a column: the code of its reason, or 0 and the clean URI and its route template.

    Where there is a reason, the texts mean nothing.
    """

    codes: NDArray[np.uint8]
    uri: pa.DictionaryArray
    route: pa.DictionaryArray


def clean_column(uris: pa.StringArray, rules: UriRules) -> CleanColumn:
    """Judge a column of request targets, ASCII and without nulls."""
    targets = pc.list_element(pc.split_pattern(uris, "#", max_splits=1), 0)
    halves = pc.split_pattern(targets, "?", max_splits=1)
    has_query = pc.list_value_length(halves).to_numpy() == 2
    paths = pc.list_element(halves, 0)
    paths = pc.if_else(pc.and_(pc.equal(paths, ""), pa.array(has_query)), "/", paths)

    codes, route, clean_paths = _clean_paths(paths.dictionary_encode(), rules)
    query_codes, clean_queries = _clean_queries(pc.list_flatten(pc.list_slice(halves, 1, 2)).dictionary_encode(), rules)
    codes[has_query] = np.where(codes[has_query] == 0, query_codes, codes[has_query])
    # A null is no query, and an empty query keeps its `?`.
    place = np.zeros(len(uris), np.int32)
    place[has_query] = np.arange(len(clean_queries), dtype=np.int32)
    queries = clean_queries.take(pa.array(place, mask=~has_query))
    clean = pc.binary_join_element_wise(clean_paths, queries, "?", null_handling="skip")
    return CleanColumn(codes, clean.dictionary_encode(), route)


def _clean_paths(paths: pa.DictionaryArray, rules: UriRules) -> tuple[NDArray[np.uint8], pa.DictionaryArray, pa.Array]:
    """Per path its code, its route and its clean text."""
    distinct = paths.dictionary.cast(pa.binary()).to_pylist()
    answers = _shaped_routes(paths.dictionary, rules)
    others = np.flatnonzero(answers < 0)
    answers[others] = [rules.paths[distinct[other]] for other in others.tolist()]
    codes, routes = np.maximum(-answers, 0).astype(np.uint8), np.maximum(answers, 0)
    texts = paths.dictionary
    if pc.any(pc.match_substring_regex(texts, NOT_IN_PATH)).as_py():
        texts = pa.array([encode_path(path).decode("ascii") for path in distinct], pa.string())
    which = paths.indices.to_numpy()
    return (
        codes[which],
        pa.DictionaryArray.from_arrays(routes[which], pa.array(rules.routes)),
        texts.take(paths.indices),
    )


def _shaped_routes(paths: pa.StringArray, rules: UriRules) -> NDArray[np.int32]:
    """Per path the position of its route, where its shape tells without a closer look; else -1.

    The paths are ASCII without control characters.
    """
    shapes = pc.replace_substring_regex(paths, "/[0-9]+", f"/{A_NUMBER}")
    known = pc.index_in(shapes, value_set=pa.array(list(rules.id_shapes), pa.string()))
    known = pc.if_else(pc.less_equal(pc.binary_length(paths), SHAPED_BYTES_MAX), known, None)
    positions = np.array([*rules.id_shapes.values(), -1], np.int32)
    return positions[pc.fill_null(known, -1).to_numpy()]


def _clean_queries(queries: pa.DictionaryArray, rules: UriRules) -> tuple[NDArray[np.uint8], pa.Array]:
    """Per query its code and its clean text."""
    texts = queries.dictionary
    which = queries.indices.to_numpy()
    others = np.flatnonzero(~_untouched(texts, rules))
    answers = [rules.queries[query] for query in texts.take(pa.array(others)).cast(pa.binary()).to_pylist()]
    codes = np.zeros(len(texts), np.uint8)
    codes[others] = [answer if isinstance(answer, int) else 0 for answer in answers]
    place = np.zeros(len(texts), np.int32)
    place[others] = np.arange(len(others), dtype=np.int32)
    is_other = np.zeros(len(texts), np.bool_)
    is_other[others] = True
    changed = pa.array([answer if isinstance(answer, str) else None for answer in answers], pa.string())
    clean = pc.coalesce(changed.take(pa.array(place, mask=~is_other)), texts)
    return codes[which], clean.take(queries.indices)


def _untouched(queries: pa.StringArray, rules: UriRules) -> NDArray[np.bool_]:
    """Per query whether each of its parts is replayed as it stands, told from the distinct parts."""
    if not len(queries):
        return np.zeros(0, np.bool_)
    split = pc.split_pattern(queries, "&")
    parts = split.flatten().dictionary_encode()
    stands = np.array(list(map(rules.stands_alone, parts.dictionary.cast(pa.binary()).to_pylist())), np.bool_)
    starts = np.frombuffer(split.buffers()[1], np.int32, len(split), 4 * split.offset)
    short = pc.less_equal(pc.binary_length(queries), MAX_BYTES).to_numpy(False)
    return np.logical_and.reduceat(stands[parts.indices.to_numpy()], starts - starts[0]) & short
