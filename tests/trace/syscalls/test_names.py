"""Check which file a name means to the strace importer after renames, links and removals."""

from pathlib import Path

from scmsim.core.records import DIRECTORY
from tests.trace.strace_helper import NEW, convert_lines


def test_an_unlinked_file_lives_on_and_its_name_is_free(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        NEW,
        'write(3</d/f>, "", 9) = 9',
        'unlink("f") = 0',
        'openat(AT_FDCWD</d>, "f", O_RDWR|O_CREAT, 0644) = 4</d/f>',
        'write(4</d/f>, "", 5) = 5',
        'write(3</d/f>(deleted), "", 1) = 1',
        "close(3</d/f>(deleted)) = 0",
    )
    files = case.records["file"].tolist()
    assert files == [files[0]] * 3 + [files[3]] * 2 + [files[0]] * 2 and files[0] != files[3]
    assert case.rows[5].offset == 9 and case.report.creates == {"certainly new": 2}


def test_rename_replaces_and_keeps_the_object(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        NEW,
        'openat(AT_FDCWD</d>, "g", O_RDWR|O_CREAT|O_EXCL, 0644) = 4</d/g>',
        'rename("f", "g") = 0',
        'write(3</d/g>, "", 5) = 5',
        'stat("/d/f", 0x7) = -1 ENOENT (No such file or directory)',
        'renameat2(AT_FDCWD</d>, "g", AT_FDCWD</d>, "h", RENAME_NOREPLACE) = 0',
        'unlink("/d/h") = 0',
    )
    first, second = case.records["file"][:2]
    assert [row.op for row in case.rows] == ["create", "create", "rename", "write", "rename", "unlink"]
    assert case.records["file"].tolist() == [first, second, first, first, first, first]
    assert case.records["file2"][2] == second and case.records["file2"][4] == -1


def test_rename_exchange_swaps_names_and_removes_nothing(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        NEW,
        'open("/d/g", O_RDWR|O_CREAT|O_EXCL, 0644) = 4',
        'renameat2(AT_FDCWD</d>, "f", AT_FDCWD</d>, "g", RENAME_EXCHANGE) = 0',
        'unlink("/d/f") = 0',
        'write(3</d/g>, "", 5) = 5',
    )
    first, second = case.records["file"][:2]
    assert case.records["file"].tolist() == [first, second, first, second, first]
    assert case.records["file2"][2] == -1


def test_o_path_opens_nothing(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        'symlink("f", "/d/l") = 0',
        'openat(AT_FDCWD</d>, "/d/l", O_RDONLY|O_NOFOLLOW|O_PATH) = 3</d/l>',
        "fstat(3</d/l>, {st_mode=S_IFLNK|0777, st_size=1, ...}) = 0",
        "close(3</d/l>) = 0",
        'openat(AT_FDCWD</d>, "/d", O_RDONLY|O_PATH|O_DIRECTORY) = 3</d>',
        'openat(3</d>, "f", O_RDONLY) = 4</d/f>',
        "close(3</d>) = 0",
    )
    assert [(row.op, row.path) for row in case.rows] == [("open", "/d/f")]


def test_rename_of_a_directory_moves_what_is_in_it(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        'mkdir("/d/a", 0777) = 0',
        'open("/d/a/f", O_RDWR|O_CREAT|O_EXCL, 0644) = 3',
        'rename("/d/a", "/d/b") = 0',
        'open("/d/b/f", O_RDONLY) = 4',
        'unlink("/d/b/f") = 0',
        'unlinkat(AT_FDCWD, "/d/b", AT_REMOVEDIR) = 0',
    )
    assert [row.op for row in case.rows] == ["mkdir", "create", "rename", "open", "unlink", "rmdir"]
    assert case.records["file"].tolist() == [case.records["file"][0], *[case.records["file"][1]]] + [
        case.records["file"][i] for i in (0, 1, 1, 0)
    ]
    assert [row.flag for row in case.rows] == [DIRECTORY, 0, DIRECTORY, 0, 0, DIRECTORY]


def test_hard_links_are_one_object(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        NEW,
        'link("/d/f", "/d/g") = 0',
        'unlink("/d/f") = 0',
        'open("/d/g", O_RDONLY) = 4',
        'unlink("/d/g") = 0',
    )
    assert [row.op for row in case.rows] == ["create", "link", "unlink", "open", "unlink"]
    assert len(set(case.records["file"].tolist())) == 1


def test_names_through_symbolic_links_lead_to_the_same_object(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        'openat(AT_FDCWD</d>, "/link/f", O_RDWR|O_CREAT|O_EXCL, 0644) = 3</real/f>',
        'stat("/link/f", {st_mode=S_IFREG|0644, st_size=0, ...}) = 0',
        'openat(AT_FDCWD</d>, "/d/current", O_RDONLY) = 4</real/f>',
        'access("/d/current", R_OK) = 0',
        'unlink("/d/current") = 0',
        'unlink("/link/f") = 0',
        'symlink("/real/f", "/d/other") = 0',
    )
    assert [row.op for row in case.rows] == ["create", "stat", "open", "stat", "unlink"]
    assert len(set(case.records["file"].tolist())) == 1
    assert case.report.left_out["symbolic link"] == 2


def test_an_unnamed_file_stays_itself_when_its_directory_is_renamed(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        'openat(AT_FDCWD</w>, "d", O_RDWR|O_TMPFILE, 0600) = 3</w/d/#7>(deleted)',
        'rename("/w/d", "/w/g") = 0',
        'write(3</w/g/#7>(deleted), "", 9) = 9',
    )
    assert case.rows[-1][:4] == ("write", case.rows[0].path, 0, 9)


def test_relative_paths_follow_the_directory(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        'open("a", O_RDONLY) = 3',
        'chdir("sub/../other/") = 0',
        'open("./b", O_RDONLY) = 4',
        'open("/top", O_RDONLY|O_DIRECTORY) = 5',
        'openat(5, "c", O_RDONLY) = 6',
        "fchdir(5) = 0",
        'open("d", O_RDONLY) = 7',
        'getcwd("/else", 100) = 6',
        'openat2(AT_FDCWD, "e", {flags=O_RDONLY|O_CLOEXEC, resolve=RESOLVE_BENEATH}, 24) = 8',
        cwd="/home",
    )
    assert [row.path for row in case.rows] == ["/home/a", "/home/other/b", "/top", "/top/c", "/top/d", "/else/e"]


def test_what_rmdir_removes_is_a_directory_and_what_unlink_removes_is_none(tmp_path: Path) -> None:
    case = convert_lines(tmp_path, 'unlink("/d/f") = 0', 'rmdir("/d/e") = 0')
    assert [(row.op, row.flag) for row in case.rows] == [("unlink", 0), ("rmdir", DIRECTORY)]
    assert [bool(case.trace.files.is_dir[row["file"]]) for row in case.records] == [False, True]
