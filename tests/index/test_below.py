import shutil
from pathlib import Path

import pytest

from index.errors import AlreadyOpenError, BaseDiffersError
from index.index import Index, internals_of
from index.storage.parameters import Parameters
from tests.support.entries import Row
from tests.support.indexes import made, opened

NEWS = 0b1011


def test_a_base_with_other_parameters_is_refused_by_name_and_leaves_no_new_index(tmp_path: Path) -> None:
    made(tmp_path / "base", [Row(0, NEWS)])
    asked = Parameters(64, 3, fingerprint={"key": "6a7ab8be707cd088"})
    with pytest.raises(BaseDiffersError, match=r"base was built with other settings:\n.*key.*\n.*leave the set out"):
        opened(tmp_path / "live", asked, bases=[tmp_path / "base"])
    with opened(tmp_path / "live", Parameters(), bases=[tmp_path / "base"]) as index:
        assert index.statistics().entries == 0


def test_an_index_takes_over_the_secret_of_its_base(tmp_path: Path) -> None:
    def parameters(secret: bytes | None) -> Parameters:
        assert secret is not None
        return Parameters(64, 3, fingerprint={"key": secret.hex()})

    with Index.open(tmp_path / "base", parameters) as index:
        secret = index.secret
    with Index.open(tmp_path / "live", parameters, bases=[tmp_path / "base"]) as index:
        assert index.secret == secret
    with Index.open(tmp_path / "apart", parameters):
        pass
    with pytest.raises(BaseDiffersError):
        Index.open(tmp_path / "apart", parameters, bases=[tmp_path / "base"])


def test_a_set_that_is_named_twice_counts_once_and_an_index_is_no_base_of_itself(tmp_path: Path) -> None:
    identity = made(tmp_path / "base", [Row(0, NEWS)])
    shutil.copytree(tmp_path / "base", tmp_path / "copy")
    (tmp_path / "link").symlink_to(tmp_path / "base")
    folders = [tmp_path / "base", tmp_path / "link", tmp_path / "copy"]
    with opened(tmp_path / "live", bases=folders) as index:
        assert [base.name for base in internals_of(index).bases] == [(identity, "base")]
    with pytest.raises(AlreadyOpenError):
        opened(tmp_path / "base", bases=[tmp_path / "base"])
    # What failed to open holds nothing.
    made(tmp_path / "base", [Row(1, NEWS)])
