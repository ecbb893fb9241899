"""Settings come from the environment, and everything stands below the home unless it is named."""

from pathlib import Path

from perf_pipeline.settings import read_settings


def test_defaults_stand_below_the_home(tmp_path: Path) -> None:
    settings = read_settings({"PERF_PIPELINE_HOME": str(tmp_path)})
    assert settings.store == str(tmp_path / "objects")
    assert settings.warehouse == tmp_path / "warehouse.duckdb"
    assert settings.dagster_home == tmp_path / "dagster"
    assert settings.plan.name == "plan.yaml"
    assert (settings.kafka, settings.kafka_settings) == (None, None)


def test_each_place_can_be_named(tmp_path: Path) -> None:
    settings = read_settings(
        {
            "PERF_PIPELINE_HOME": str(tmp_path),
            "PERF_PIPELINE_PLAN": "mine.yaml",
            "PERF_PIPELINE_STORE": "/data/objects",
            "PERF_PIPELINE_WAREHOUSE": "/data/w.duckdb",
            "PERF_PIPELINE_TOKEN_KEY_FILE": "/keys/k.pem",
            "PERF_PIPELINE_KAFKA": "a:9092,b:9092",
            "PERF_PIPELINE_KAFKA_SETTINGS": "kafka.yaml",
        }
    )
    assert settings.plan == Path.cwd() / "mine.yaml"
    assert (settings.store, settings.warehouse) == ("/data/objects", Path("/data/w.duckdb"))
    assert settings.token_key_file == Path("/keys/k.pem")
    assert read_settings({"DAGSTER_HOME": "/state"}).dagster_home == Path("/state")
    assert (settings.kafka, settings.kafka_settings) == ("a:9092,b:9092", Path.cwd() / "kafka.yaml")


def test_every_variable_is_in_the_example_file() -> None:
    example = Path(__file__).parents[1].joinpath(".env.example").read_text()
    source = Path(__file__).parents[1].joinpath("perf_pipeline/settings.py").read_text()
    variables = {word.strip('"') for word in source.split() if word.startswith('"PERF_PIPELINE_')}
    for variable in ("HOME", "PLAN", "STORE", "WAREHOUSE", "TOKEN_KEY_FILE", "KAFKA", "KAFKA_SETTINGS"):
        assert f"PERF_PIPELINE_{variable}" in example
    assert all(variable.rstrip(',")') in example for variable in variables)
