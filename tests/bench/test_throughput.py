"""The bench of throughput: its command line; the measurement itself has its own command."""

from click.testing import CliRunner

from bench.throughput import main


def test_a_client_comes_from_its_option_alone() -> None:
    result = CliRunner().invoke(main, ["kafka", "--set", "kafka.client=confluent-kafka"])
    assert result.exit_code == 2
    assert "name clients by --client" in result.output
