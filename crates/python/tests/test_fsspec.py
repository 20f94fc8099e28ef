"""The fsspec file system."""

import pytest

fsspec = pytest.importorskip("fsspec")


def test_files_are_found_and_read(image_path, contents):
    fs = fsspec.filesystem("packfs", fo=image_path)
    assert set(fs.find("")) >= set(contents)
    assert sorted(fs.glob("small/00*.txt")) == [f"small/{n:03}.txt" for n in range(10)]
    for name, data in contents.items():
        assert fs.cat_file(name) == data
        assert fs.info(name)["size"] == len(data)
        with fs.open(name) as file:
            assert file.read() == data
    assert fs.isdir("small") and fs.isfile("empty") and not fs.exists("gone")
    assert fs.cat_file("large.txt", 5, 20) == contents["large.txt"][5:20]
    assert fs.cat_file("large.txt", -20, -3) == contents["large.txt"][-20:-3]
    with pytest.raises(FileNotFoundError):
        fs.cat_file("gone")


def test_ranges_come_in_one_call_with_errors_in_their_place(image_path, contents):
    fs = fsspec.filesystem("packfs", fo=image_path)
    paths = ["large.txt", "empty", "large.txt"]
    got = fs.cat_ranges(paths, [3, 0, None], [100_000, None, 10])
    assert got == [contents["large.txt"][3:100_000], b"", contents["large.txt"][:10]]
    got = fs.cat_ranges(["empty", "gone"], 0, 5)
    assert got[0] == b"" and isinstance(got[1], FileNotFoundError)


def test_addresses_are_chained(image_path, contents):
    with fsspec.open(f"packfs://small/009.txt::file://{image_path}") as file:
        assert file.read() == contents["small/009.txt"]
    memory = fsspec.filesystem("memory")
    with open(image_path, "rb") as file:
        memory.pipe("/image", file.read())
    with fsspec.open("packfs://small/009.txt::memory://image") as file:
        assert file.read() == contents["small/009.txt"]


def test_pandas_reads_a_table(tmp_path):
    pandas = pytest.importorskip("pandas")
    import packfs

    target = tmp_path / "t.sqfs"
    packfs.build(target, [("data/t.csv", b"a,b\n1,2\n3,4\n")])
    assert pandas.read_csv(f"packfs://data/t.csv::file://{target}")["b"].tolist() == [2, 4]
