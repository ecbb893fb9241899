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
from perf_pipeline.capture.uri import UriRules


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
    answers = np.array(list(map(rules.paths.__getitem__, distinct)), np.int32)
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


def _clean_queries(queries: pa.DictionaryArray, rules: UriRules) -> tuple[NDArray[np.uint8], pa.Array]:
    """Per query its code and its clean text."""
    distinct = queries.dictionary.cast(pa.binary()).to_pylist()
    answers = list(map(rules.queries.__getitem__, distinct))
    codes = np.array([answer if isinstance(answer, int) else 0 for answer in answers], np.uint8)
    changed = pa.array([answer if isinstance(answer, str) else None for answer in answers], pa.string())
    texts = pc.coalesce(changed, queries.dictionary)
    return codes[queries.indices.to_numpy()], texts.take(queries.indices)
