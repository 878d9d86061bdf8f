from deploy.metrics_page import PAGE, page


def test_the_page_is_the_one_that_the_definitions_make() -> None:
    assert PAGE.read_text("utf-8") == page(), "run python -m deploy.metrics_page"
