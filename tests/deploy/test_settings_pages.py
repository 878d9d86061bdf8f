"""docs/settings.md and docs/settings-methods.md list every setting, as it is."""

from deploy.settings_pages import PAGES, with_tables
from streamer.settings.presets import METHOD_DETAILS
from streamer.settings.relations import relations
from streamer.settings.settings import Settings, load
from streamer.settings.values import fields

OPERATORS, METHODS = (page.read_text("utf-8") for page in PAGES)


def test_the_tables_are_those_that_the_settings_make() -> None:
    for file, keys in PAGES.items():
        page = file.read_text("utf-8")
        assert page == with_tables(page, keys), "run python -m deploy.settings_pages"


def test_a_table_of_an_older_setting_is_replaced() -> None:
    page = "# Head\n<!-- settings -->\nold\n<!-- end -->\ntail\n"
    made = with_tables(page, {"kafka.group"})
    assert made.startswith("# Head\n<!-- settings -->\n\n## kafka\n")
    assert made.endswith(" |\n\n<!-- end -->\ntail\n")
    assert "old" not in made
    assert made.count("\n| `") == 1


def test_each_setting_has_a_row_on_one_of_the_two_pages() -> None:
    for key in fields(Settings):
        rows = [f"| `{key}` | " in page for page in (OPERATORS.split("## Presets")[0], METHODS)]
        assert rows == [key not in METHOD_DETAILS, key in METHOD_DETAILS], key
    assert "(settings-methods.md)" in OPERATORS
    assert "(settings.md)" in METHODS


def test_every_relation_that_is_checked_stands_on_a_page() -> None:
    listed = "".join(page.split("## Relations")[1] for page in (OPERATORS, METHODS))
    for relation in relations(load(None, ["fingerprint.scheme=simhash"], {}).value):
        for key in relation.keys:
            if not key.startswith(("topics.", "decode.")) and "ssl_" not in key:
                assert key in listed, key
