from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from marksweep.errors import BadInput
from marksweep.indexing.files import MAX_FILE_BYTES, MAX_FILE_LINES, Unfit, read_source
from marksweep.indexing.ignore import POSIX_CLASSES
from marksweep.indexing.selection import Selection
from marksweep.indexing.walk import Walk, walk
from tests.indexing.trees import write


def walked(root: Path, **options: object) -> Walk:
    return walk(root, Selection.of(**options))  # type: ignore[arg-type]


def paths(root: Path, **options: object) -> list[str]:
    return [found.path for found in walked(root, **options).found]


def reasons(root: Path) -> dict[str, str]:
    return {skipped.path: skipped.reason for skipped in walked(root).skipped}


def test_files_come_sorted_by_path_whatever_the_disk_says(tmp_path: Path) -> None:
    for name in ("b/z.py", "a.py", "b.py", "b/a.py", "Z.py"):
        write(tmp_path, name)
    assert paths(tmp_path) == ["Z.py", "a.py", "b.py", "b/a.py", "b/z.py"]


def test_an_ignore_file_holds_below_its_folder_and_the_deepest_line_decides(tmp_path: Path) -> None:
    write(tmp_path, ".gitignore", "*.log\n/build/\n!keep.log\n")
    write(tmp_path, "sub/.gitignore", "!a.log\n*.py\n")
    for name in ("a.log", "keep.log", "build/x.py", "sub/a.log", "sub/b.log", "sub/c.py", "c.py"):
        write(tmp_path, name)
    kept = [path for path in paths(tmp_path) if not path.endswith(".gitignore")]
    assert kept == ["c.py", "keep.log", "sub/a.log"]


def test_a_folder_that_is_ignored_cannot_be_entered_again(tmp_path: Path) -> None:
    write(tmp_path, ".gitignore", "out/\n!out/keep.py\n")
    write(tmp_path, "out/keep.py")
    assert paths(tmp_path) == [".gitignore"]


def test_an_ignore_file_as_windows_editors_write_it_is_read_as_git_reads_it(
    tmp_path: Path,
) -> None:
    rules = "\ufefffirst.py\r\nlast\\ \r\n"
    (tmp_path / ".gitignore").write_bytes(rules.encode())
    for name in ("first.py", "last ", "kept.py"):
        write(tmp_path, name, "x = 1\n")
    assert paths(tmp_path) == [".gitignore", "kept.py"]


def test_rules_of_the_repository_above_the_root_hold(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    write(tmp_path, ".gitignore", "src/gen/\n*.tmp\n")
    for name in ("src/gen/x.py", "src/a.py", "src/b.tmp"):
        write(tmp_path, name)
    assert paths(tmp_path / "src") == ["a.py"]


def test_a_root_that_its_repository_ignores_was_named_on_purpose(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    write(tmp_path, ".gitignore", "gen/\n")
    write(tmp_path, "gen/x.py")
    assert paths(tmp_path / "gen") == ["x.py"]


def test_a_line_that_is_not_a_pattern_does_not_affect_the_others(tmp_path: Path) -> None:
    write(tmp_path, ".gitignore", "!\n*.log\n/\n\\\n[z-a]\n")
    write(tmp_path, "a.log")
    write(tmp_path, "a.py")
    assert paths(tmp_path) == [".gitignore", "a.py"]


def test_two_stars_alone_ignore_files_with_names_of_any_length(tmp_path: Path) -> None:
    for name in ("a", "bc", "d/e"):
        write(tmp_path, name)
    write(tmp_path, ".gitignore", "/**\n!/bc\n")
    assert paths(tmp_path) == ["bc"]


def listed_by_git(root: Path) -> list[str]:
    listed = subprocess.run(
        ["git", "-c", "core.excludesFile=", "ls-files", "-z", "-o", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
    ).stdout
    return sorted(listed.decode().split("\0")[:-1])


def test_a_class_of_characters_holds_what_git_holds_in_it(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for code in range(1, 128):
        if chr(code) != "/":
            write(tmp_path, f"x{chr(code)}")
    for line in ("x[[:{}:]]", "x[![:{}:]]", "x[_[:{}:]0]", "x[:{}:]", "x\\[[:{}:]]"):
        for name in POSIX_CLASSES:
            write(tmp_path, ".gitignore", line.format(name))
            assert paths(tmp_path) == listed_by_git(tmp_path), line.format(name)


def test_a_pattern_that_python_may_read_differently_some_day_prints_no_warning() -> None:
    lines = ["[[a]x", "[a&&b]", "[a||b]", "[[:nope:]]"]
    code = f"from marksweep.indexing.ignore import Pattern\nfor each in {lines}: Pattern(each)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stderr == ""


def test_what_a_repository_excludes_is_excluded_in_its_worktrees(tmp_path: Path) -> None:
    main, other = tmp_path / "main", tmp_path / "other"
    author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    subprocess.run(["git", "init", "-q", str(main)], check=True)
    commit = ["git", *author, "commit", "-q", "--allow-empty", "-m", "first"]
    subprocess.run(commit, cwd=main, check=True)
    subprocess.run(["git", "worktree", "add", "-q", str(other)], cwd=main, check=True)
    write(main, ".git/info/exclude", "*.log\n")
    write(other, "a.log")
    write(other, "a.py")
    assert [path for path in paths(other) if path != ".git"] == listed_by_git(other) == ["a.py"]


NAMES = st.sampled_from(["a", "b", "c.py", "d.log", "e f", "né"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
LINES = st.sampled_from(
    [
        *("a", "/a", "a/", "*.py", "!*.py", "b/*", "**/c.py", "a/**", "!a/b/", "/b/c.py", "d.*"),
        *("!d.log", "e\\ f", "e f", "*", "!*/", "#x", "", "a/*/c.py", "[ab]", "?", "né", "c.py "),
        *("**", "**/", "*/", "!a/**", "!a", "/*", "!/a", "**/b/**", "!b/**/", "a/b/c.py", "\\!x"),
        *("/**", "**/**"),
    ]
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    files=st.sets(PATHS, min_size=1, max_size=8),
    rules=st.dictionaries(
        st.sampled_from(["", "a/", "b/"]), st.lists(LINES, min_size=1, max_size=4), max_size=3
    ),
)
def test_git_itself_would_list_the_same_files(
    tmp_path_factory: pytest.TempPathFactory, files: set[str], rules: dict[str, list[str]]
) -> None:
    root = tmp_path_factory.mktemp("tree")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    for name in sorted(files, key=len, reverse=True):
        if not (root / name).is_dir() and not any(p.is_file() for p in (root / name).parents):
            write(root, name)
    for folder, lines in rules.items():
        if (root / folder).is_dir():
            write(root, f"{folder}.gitignore", "\n".join(lines) + "\n")
    assert paths(root) == listed_by_git(root)


def test_links_are_not_followed_and_say_where_they_lead(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write(tmp_path, "secret.py")
    write(root, "real/a.py")
    (root / "out.py").symlink_to(tmp_path / "secret.py")
    (root / "up").symlink_to(tmp_path)
    (root / "again.py").symlink_to(root / "real/a.py")
    (root / "real/self").symlink_to(root)
    (root / "loop.py").symlink_to("loop.py")
    (root / "nothing.py").symlink_to("absent.py")
    assert paths(root) == ["real/a.py"]
    assert reasons(root) == {
        "out.py": "a symbolic link that leaves the root",
        "up": "a symbolic link that leaves the root",
        "again.py": "a symbolic link within the root: its target is indexed under its own name",
        "real/self": "a symbolic link within the root: its target is indexed under its own name",
        "loop.py": "a symbolic link in a loop",
        "nothing.py": "a symbolic link to nothing",
    }


def test_a_root_may_itself_be_a_link(tmp_path: Path) -> None:
    write(tmp_path, "real/a.py")
    (tmp_path / "link").symlink_to("real")
    assert paths(tmp_path / "link") == ["a.py"]


def test_pipes_and_sockets_are_skipped_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "sock.py"))
        assert reasons(tmp_path) == {"pipe.py": "a pipe", "sock.py": "a socket"}
    with pytest.raises(Unfit, match="a pipe"):
        read_source(tmp_path / "pipe.py")


def test_a_file_of_100_mb_is_skipped_without_being_read(tmp_path: Path) -> None:
    with (tmp_path / "big.py").open("wb") as file:
        file.truncate(100_000_000)
    assert paths(tmp_path) == []
    assert reasons(tmp_path) == {"big.py": f"100,000,000 bytes; the limit is {MAX_FILE_BYTES:,}"}


def test_a_file_that_was_replaced_by_a_link_is_not_read(tmp_path: Path) -> None:
    outside = write(tmp_path, "outside.txt", "secret\n")
    link = tmp_path / "a.py"
    link.symlink_to(outside)
    with pytest.raises(Unfit, match="symbolic link"):
        read_source(link)


def test_a_million_lines_are_too_many(tmp_path: Path) -> None:
    file = write(tmp_path, "long.py", "\n" * 1_000_000)
    with pytest.raises(Unfit, match=f"1,000,000 lines; the limit is {MAX_FILE_LINES:,}"):
        read_source(file)


@pytest.mark.parametrize("at", [0, 100, 20_000])
def test_nul_bytes_make_a_file_binary_wherever_they_are(tmp_path: Path, at: int) -> None:
    file = write(tmp_path, "a.py", b"x" * at + b"\0" + b"y" * 10)
    with pytest.raises(Unfit, match="binary"):
        read_source(file)


def test_a_name_that_is_not_utf8_is_skipped_and_shown(tmp_path: Path) -> None:
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.py"))).write_text("x = 1\n")
    assert paths(tmp_path) == []
    assert reasons(tmp_path) == {"\\xff.py": "its name is not valid UTF-8"}


def test_names_with_newlines_and_quotes_are_names(tmp_path: Path) -> None:
    names = ["a\nb.py", "it's.py", 'say "hi".py', "a;DROP TABLE memory.py", "-rf.py", "*.py"]
    for name in names:
        write(tmp_path, name)
    assert paths(tmp_path) == sorted(names)


WALK_AS_NOBODY = """
import os, sys
from pathlib import Path
from marksweep.indexing.ignore import POSIX_CLASSES
from marksweep.indexing.selection import Selection
from marksweep.indexing.walk import walk
if os.getuid() == 0:
    os.setuid(65534)
found = walk(Path(sys.argv[1]), Selection())
print([f.path for f in found.found], [(s.path, s.reason, s.unknown) for s in found.skipped])
"""


def test_what_may_not_be_read_is_skipped_and_counts_as_unknown() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o755)
        write(root, "closed/a.py")
        write(root, "open/b.py")
        (root / "closed").chmod(0)
        shown = subprocess.run(
            [sys.executable, "-c", WALK_AS_NOBODY, str(root)],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        ).stdout
        (root / "closed").chmod(0o755)
        assert shown == "['open/b.py'] [('closed/', 'permission denied', True)]\n"


@pytest.mark.parametrize("path", ["absent", "file.py", "absent/../..//nowhere", "nul\0byte"])
def test_a_root_that_is_not_a_folder_is_refused_with_a_reason(tmp_path: Path, path: str) -> None:
    write(tmp_path, "file.py")
    with pytest.raises(BadInput, match="a folder to index was expected"):
        walked(tmp_path / path)


def test_filters_pick_by_language_and_by_what_tests_are_called(tmp_path: Path) -> None:
    for name in ("a.py", "test_a.py", "tests/b.py", "a_test.go", "b.go", "c.spec.ts", "d.tsx"):
        write(tmp_path, name)
    assert paths(tmp_path, languages=["py"]) == ["a.py", "test_a.py", "tests/b.py"]
    assert paths(tmp_path, include_tests=False) == ["a.py", "b.go", "d.tsx"]
    assert paths(tmp_path, languages=["TypeScript"]) == ["c.spec.ts", "d.tsx"]


def test_folders_that_hold_no_source_are_left_out(tmp_path: Path) -> None:
    for name in ("node_modules/a.js", ".git/hooks/x.py", "__pycache__/a.py", ".marksweep/b.py"):
        write(tmp_path, name)
    assert paths(tmp_path) == []


def test_a_very_deep_tree_is_walked(tmp_path: Path) -> None:
    write(tmp_path, "/".join(["d"] * 600) + "/a.py")
    assert paths(tmp_path) == ["/".join(["d"] * 600) + "/a.py"]


def test_a_root_whose_name_is_not_utf8_is_refused(tmp_path: Path) -> None:
    root = tmp_path / os.fsdecode(b"bad\xff")
    root.mkdir()
    with pytest.raises(BadInput, match="a name that is not valid UTF-8"):
        walked(root)
