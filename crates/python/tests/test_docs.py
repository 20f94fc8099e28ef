"""Examples of the documentation run as they stand."""

import doctest

import packfs
import packfs._build
import packfs._image
import packfs._samples
import packfs.dump


def test_examples_of_docstrings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for module in (packfs, packfs._build, packfs._image, packfs._samples, packfs.dump):
        result = doctest.testmod(module)
        assert result.attempted > 0 and result.failed == 0, module
