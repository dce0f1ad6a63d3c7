from __future__ import annotations

import copy
import json
from typing import Any

import attrs
import pytest

from rcusim.errors import ScenarioError
from rcusim.results.document import full_document, result_document, run_document, run_from
from rcusim.results.model import PARTS, Result, RunResult
from tests.results.samples import run
from tests.results.test_slabinfo import SERIES as SLABINFO


def saved(result: RunResult) -> Any:
    return json.loads(json.dumps(full_document(result)))


def test_the_document_of_a_result_is_the_contract() -> None:
    document = result_document(Result(scenario="sample", runs=(run(),)))
    assert list(document) == ["format", "scenario", "digest", "runs"]
    assert document["format"] == 1
    (entry,) = document["runs"]
    assert list(entry) == [
        "variant", "seed", "complete", "digest", "virtual_ns", "wall_s", "compile_s", "objects",
        "grace_periods", "footprint_bytes", "cpu_ns", "rcuscale", "violations",
    ]  # fmt: skip
    assert list(entry["objects"]) == ["allocated", "queued", "freed", "emergency", "in_flight_peak"]
    assert list(entry["footprint_bytes"]) == ["peak", "mean", "end", "parts_at_peak"]
    assert tuple(entry["footprint_bytes"]["parts_at_peak"]) == PARTS
    assert entry["rcuscale"] == {
        "total_ns": 301_000_000, "loops": 2000, "batches": 30, "footprint_mb": 115,
    }  # fmt: skip
    assert entry["violations"] == []


def test_a_run_without_the_kernels_test_has_no_line() -> None:
    assert run_document(attrs.evolve(run(), rcuscale=None))["rcuscale"] is None


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"rcuscale": None, "complete": False, "interrupted": True, "reason": "a signal"},
        {"violations": ("ledger violated at 3 ns: object 5",)},
        {"slabinfo": SLABINFO},
    ],
)
def test_a_run_survives_saving_and_loading(changes: dict[str, Any]) -> None:
    original = attrs.evolve(run(), **changes)
    assert run_from(saved(original), "run.json") == original


@pytest.mark.parametrize("document", [[], {}, 3, None, "text", {"format": 1}, {"series": {}}])
def test_a_foreign_document_is_refused(document: object) -> None:
    with pytest.raises(ScenarioError):
        run_from(document, "x.json")


def test_another_format_is_refused_by_its_number() -> None:
    with pytest.raises(ScenarioError, match="format = 2: must be 1"):
        run_from({**saved(run()), "format": 2}, "x.json")


def drop(document: Any, *path: str) -> Any:
    changed = copy.deepcopy(document)
    entry = changed
    for key in path[:-1]:
        entry = entry[key]
    del entry[path[-1]]
    return changed


@pytest.mark.parametrize(
    "path",
    [
        ("objects",),
        ("objects", "freed"),
        ("series", "bin_ns"),
        ("series", "parts_bytes"),
        ("series", "gp_ends"),
        ("footprint_bytes", "parts_at_peak", "live"),
        ("scenario",),
        ("scenario", "name"),
        ("digest",),
    ],
)
def test_a_document_with_a_hole_is_refused(path: tuple[str, ...]) -> None:
    with pytest.raises(ScenarioError) as caught:
        run_from(drop(saved(run()), *path), "x.json")
    assert caught.value.source == "x.json"


def test_a_changed_document_is_refused() -> None:
    document = saved(run())
    document["objects"]["freed"] += 1
    with pytest.raises(ScenarioError, match="does not match the content"):
        run_from(document, "x.json")


@pytest.mark.parametrize("value", [1.0, True, "1", None])
def test_a_number_that_is_no_integer_is_refused(value: object) -> None:
    document = saved(run())
    document["grace_periods"] = value
    with pytest.raises(ScenarioError, match="is not an integer"):
        run_from(document, "x.json")


def test_columns_of_different_length_are_refused() -> None:
    document = saved(run())
    document["series"]["gp_ends"].append(0)
    with pytest.raises(ScenarioError, match="differ in length"):
        run_from(document, "x.json")


def test_states_of_slabinfo_belong_to_the_digest_and_must_fit() -> None:
    with_states = attrs.evolve(run(), slabinfo=SLABINFO)
    assert with_states.digest != run().digest
    document = saved(with_states)
    document["slabinfo"]["states"][1][0] += 1
    with pytest.raises(ScenarioError, match="does not match the content"):
        run_from(document, "run.json")
    document["slabinfo"]["states"][1].append(7)
    with pytest.raises(ScenarioError, match="do not fit together"):
        run_from(document, "run.json")


def test_a_run_from_before_slabinfo_was_recorded_is_read() -> None:
    document = saved(run())
    del document["slabinfo"]
    assert run_from(document, "run.json") == run()
