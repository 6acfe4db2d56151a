"""Directories of paths, beside os.path."""

import os.path

from hypothesis import given
from hypothesis import strategies as st

from scmsim.core.folders import common_folder, directories_of

names = st.sampled_from(["a", "ab", "b", "a.b"])
paths = st.lists(names, min_size=1, max_size=5).map(lambda parts: "/" + "/".join(parts))


@given(st.lists(st.tuples(paths, st.booleans()), min_size=1, max_size=6))
def test_common_folder_is_the_common_path_of_the_directories(files):
    given_paths, is_dir = zip(*files, strict=True)
    found = common_folder(given_paths, is_dir)
    wanted = os.path.commonpath([path if folder else os.path.dirname(path) for path, folder in files])
    assert found == (wanted if wanted == "/" else wanted + "/")
    for path in given_paths:
        if path != wanted:
            below = os.path.relpath(os.path.dirname(path), wanted)
            assert directories_of(path, found) == (wanted != "/") + (below.count("/") + 1 if below != "." else 0)


def test_names_that_are_no_paths_have_no_common_folder():
    assert common_folder(["volume", "disk 2"], [False, False]) == ""
    assert common_folder(["volume", "/a/b"], [False, False]) == "/a/"
