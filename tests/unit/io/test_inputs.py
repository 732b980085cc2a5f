import pytest

from thalweg.errors import UsageError
from thalweg.io.inputs import files_of, inputs_of


def test_an_equals_sign_may_be_in_the_iri_and_in_the_path(tmp_path):
    path = tmp_path / "day=1" / "s.nt"
    path.parent.mkdir()
    path.write_text("")
    assert inputs_of([f"http://ex/?a=b={path}"]) == {"http://ex/?a=b": str(path)}


@pytest.mark.parametrize("option", ["", "=", "a", "=a", "a="])
def test_a_stream_without_iri_or_path_is_refused(option):
    with pytest.raises(UsageError, match="IRI=PATH"):
        inputs_of([option])


def test_a_pattern_that_matches_nothing_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no file has such a name"):
        files_of(str(tmp_path / "*.nt"))
