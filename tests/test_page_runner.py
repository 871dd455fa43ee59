"""`python -m scripts.pages` on small pages."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "scripts" / "pages"


@pytest.fixture
def readme(tmp_path: Path):
    """Run the runner in a repository of its own, as small as can be."""
    shutil.copytree(PACKAGE, tmp_path / "scripts" / "pages", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)

    def run(text: str, *options: str):
        (tmp_path / "README.md").write_text(text)
        command = [sys.executable, "-m", "scripts.pages", "--verbose", *options]
        return subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=600)

    return run


def fence(language: str, *lines: str) -> str:
    return "\n".join([f"```{language}", *lines, "```", ""])


def test_commands_run_in_order_in_one_folder(readme):
    result = readme(fence("sh", "echo one > file") + "Then:\n\n" + fence("sh", "grep one file"))
    assert result.returncode == 0, result.stderr
    first, second, page, total = result.stdout.splitlines()
    assert first.startswith("README.md:2: echo one > file  (")
    assert second.startswith("README.md:7: grep one file  (")
    assert page.split()[:5] == ["README.md", "2", "blocks", "2", "run"]
    assert total.startswith("1 pages, 2 blocks, 2 run,")


def test_the_folder_is_a_copy_of_the_working_tree_and_leaves_it_alone(readme, tmp_path: Path):
    (tmp_path / ".gitignore").write_text("ignored\n")
    (tmp_path / "ignored").touch()
    result = readme(fence("sh", "ls scripts/pages/run.py .venv/bin/python", "test ! -e ignored", "touch left-behind"))
    assert result.returncode == 0, result.stderr
    assert not (tmp_path / "left-behind").exists()


def test_all_pages_run_each_in_a_folder_of_its_own(readme, tmp_path: Path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "other.md").write_text(fence("sh", "test ! -e file", "exit 7"))
    result = readme(fence("sh", "touch file"))
    assert result.returncode == 1
    assert "docs/other.md:3: exit 7: exit status 7" in result.stderr
    assert "docs/other.md" in result.stdout
    assert readme(fence("sh", "touch file"), "README.md").returncode == 0


def test_python_is_the_one_of_the_environment(readme):
    result = readme(fence("sh", f"test $(command -v python) -ef {Path(sys.executable).parent}/python"))
    assert result.returncode == 0, result.stderr


def test_the_first_failure_stops_the_page_and_is_named(readme):
    result = readme(fence("sh", "echo fine", "echo oh dear; exit 3", "echo never"))
    assert result.returncode == 1
    assert "README.md:3: echo oh dear; exit 3: exit status 3" in result.stderr
    assert "oh dear\n" in result.stderr
    assert "never" not in result.stdout


@pytest.mark.parametrize("command", ["false | cat", "read answer", "makeshift"])
def test_what_fails_in_a_shell_without_input_is_a_failure(readme, command):
    assert readme(fence("sh", command)).returncode == 1


def test_comments_are_no_commands_and_a_backslash_continues_one(readme):
    result = readme(fence("sh", "# exit 1", "", "test 1 \\", "  -eq 1  # exit 1", "false"))
    assert "README.md:6: false: exit status 1" in result.stderr


def test_the_lines_after_a_prompt_are_the_whole_output(readme):
    assert (
        readme(fence("console", "$ printf 'one\\n2   3\\n'", "one", "2 3", "$ true", "$ seq 9", "1", "...")).returncode
        == 0
    )
    result = readme(fence("console", "$ echo 0.757", "0.758"))
    assert result.returncode == 1
    assert "the page shows\n0.758" in result.stderr
    assert readme(fence("console", "$ seq 2", "1")).returncode == 1


def test_text_is_part_of_what_the_block_before_it_printed(readme):
    printed = fence("python", "for n in range(9):", "    print(n)")
    assert readme(printed + "\n" + fence("text", "3", "4")).returncode == 0
    result = readme(printed + "\n" + fence("text", "4", "3"))
    assert "README.md:7: this is not what was printed before" in result.stderr


def test_python_blocks_share_a_namespace_and_the_folder(readme):
    text = fence("python", "def double(x):", "    return 2 * x") + fence("sh", "echo 4 > number")
    assert readme(text + fence("python", "assert double(2) == int(open('number').read())")).returncode == 0


def test_workers_of_another_process_find_what_a_block_defines(readme):
    lines = ["from multiprocessing import get_context", "def double(x):", "    return 2 * x"]
    lines += ["if __name__ == '__main__':", "    with get_context('spawn').Pool(1) as pool:"]
    result = readme(fence("python", *lines, "        assert pool.map(double, [2]) == [4]"))
    assert result.returncode == 0, result.stderr


def test_a_traceback_of_a_python_block_gives_the_line_in_the_page(readme):
    result = readme("# Title\n\n" + fence("python", "x = 1", "assert x == 2"))
    assert result.returncode == 1
    assert "line 5" in result.stderr
    assert "README.md:4: python block: an exception" in result.stderr


@pytest.mark.parametrize(
    ("language", "line", "mark"),
    [
        ("toml", "a = ", ""),
        ("json", "{", ""),
        ("toml", "[devices]\ncount = -1", ""),
        ("text", "a,b\n1", "<!-- file: a.csv -->"),
    ],
)
def test_data_must_parse(readme, language, line, mark):
    assert "README.md:3: " in readme(f"{mark}\n{fence(language, line)}").stderr


def test_a_block_can_be_a_file_of_the_commands_after_it(readme):
    text = "<!-- file: own/a.toml -->\n" + fence("toml", "a = 1") + fence("sh", 'grep "a = 1" own/a.toml')
    assert readme(text).returncode == 0


@pytest.mark.parametrize(
    ("mark", "reason"),
    [("not run: docker", "docker"), ("needs: ../absent/x.npz", "needs ../absent/x.npz"), ("needs: nosuchmodule",) * 2],
)
def test_a_marked_block_is_counted_and_not_run(readme, mark, reason):
    result = readme(f"<!-- {mark} -->\n" + fence("sh", "exit 1"))
    assert result.returncode == 0
    assert f"1 not run: {'needs ' * (reason == mark)}{reason.removeprefix('needs: ')}" in result.stdout


def test_what_is_needed_and_there_is_run(readme):
    assert readme("<!-- needs: json -->\n" + fence("sh", "exit 1")).returncode == 1
    assert readme("<!-- needs: ./README.md -->\n" + fence("sh", "exit 1")).returncode == 1


def test_installs_are_not_run_and_make_is_asked_what_it_would_do(readme, tmp_path: Path):
    (tmp_path / "Makefile").write_text("demo:\n\texit 1\n")
    assert (
        readme(fence("sh", "git clone https://example.org/airpool", "cd airpool", "pip install -e .")).returncode == 0
    )
    assert readme(fence("sh", "make demo")).returncode == 0
    assert readme(fence("sh", "make nothing")).returncode == 1


def test_list_runs_nothing(readme):
    result = readme(fence("sh", "exit 1"), "--list")
    assert (result.returncode, result.stdout) == (0, "README.md:2: sh \n    exit 1\n")


def test_pages_with_nothing_to_run_are_an_error(readme):
    result = readme("# Title\n")
    assert result.returncode == 1
    assert "nothing was checked" in result.stderr
