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


def test_links_to_directories_are_not_followed_in_a_search(tmp_path):
    import packfs

    def link(target):
        return None, {"kind": "symlink", "target": target}

    entries = [("a/x.csv", b"1"), ("a/up", *link("..")), ("a/up2", *link("..")), ("b.csv", *link("a/x.csv"))]
    packfs.build(tmp_path / "a.sqfs", [*entries, ("bad", *link("b.csv/x")), ("loop", *link("loop"))])
    fs = fsspec.filesystem("packfs", fo=tmp_path / "a.sqfs")
    assert fs.find("") == ["a/up", "a/up2", "a/x.csv", "b.csv", "bad", "loop"]
    assert fs.glob("**/*.csv") == ["a/x.csv", "b.csv"]
    types = {info["name"]: info["type"] for info in fs.ls("a") + fs.ls("")}
    others = ["a/up", "a/up2", "bad", "loop"]
    assert types == {"a": "directory", "a/x.csv": "file", "b.csv": "file", **dict.fromkeys(others, "other")}
    # As a path, a link leads on.
    assert fs.info("a/up")["type"] == "directory" and fs.cat_file("a/up/a/x.csv") == b"1"


def test_keys_of_caches_tell_files_and_images_apart(image_path, tmp_path):
    import packfs

    packfs.build(tmp_path / "a.sqfs", [("empty", b""), ("link", b"")])
    systems = [fsspec.filesystem("packfs", fo=fo) for fo in (image_path, tmp_path / "a.sqfs", packfs.open(image_path))]
    first, other, same = (fs.ukey("empty") for fs in systems)
    assert first == same and len({first, other, systems[0].ukey("link")}) == 3
    cached = {"cache_storage": str(tmp_path / "cache")}
    with fsspec.open(f"filecache::packfs://empty::file://{image_path}", filecache=cached) as file:
        assert file.read() == b""


def test_pandas_reads_a_table(tmp_path):
    pandas = pytest.importorskip("pandas")
    import packfs

    target = tmp_path / "t.sqfs"
    packfs.build(target, [("data/t.csv", b"a,b\n1,2\n3,4\n")])
    assert pandas.read_csv(f"packfs://data/t.csv::file://{target}")["b"].tolist() == [2, 4]
