"""scripts/readme.py on small READMEs."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

RUNNER = Path(__file__).resolve().parent.parent / "scripts" / "readme.py"


@pytest.fixture
def readme(tmp_path: Path):
    """Run the runner in a repository of its own, as small as can be."""
    (tmp_path / "scripts").mkdir()
    runner = shutil.copy(RUNNER, tmp_path / "scripts")
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)

    def run(text: str, *options: str):
        (tmp_path / "README.md").write_text(text)
        command = [sys.executable, runner, *options]
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)

    return run


def fence(language: str, *lines: str) -> str:
    return "\n".join([f"```{language}", *lines, "```", ""])


def test_commands_run_in_order_in_one_folder(readme):
    result = readme(fence("sh", "echo one > file") + "Then:\n\n" + fence("bash", "grep one file"))
    assert result.returncode == 0, result.stderr
    first, second = result.stdout.splitlines()
    assert first.startswith("README.md:2: echo one > file  (")
    assert second.startswith("README.md:7: grep one file  (")
    assert second.endswith(" s)")


def test_the_folder_is_a_copy_of_the_working_tree_and_leaves_it_alone(readme, tmp_path: Path):
    (tmp_path / ".gitignore").write_text("ignored\n")
    (tmp_path / "ignored").touch()
    result = readme(fence("sh", "ls scripts/readme.py .venv/bin/python", "test ! -e ignored", "touch left-behind"))
    assert result.returncode == 0, result.stderr
    assert not (tmp_path / "left-behind").exists()


def test_another_file_can_be_named(readme, tmp_path: Path):
    (tmp_path / "OTHER.md").write_text(fence("sh", "true"))
    result = readme("", "--readme", str(tmp_path / "OTHER.md"), "--list")
    assert result.stdout == "OTHER.md:2: true\n"


def test_python_is_the_one_of_the_environment(readme):
    result = readme(fence("sh", f"test $(command -v python) -ef {Path(sys.executable).parent}/python"))
    assert result.returncode == 0, result.stderr


def test_the_first_failure_stops_the_run_and_is_named(readme):
    result = readme(fence("sh", "echo fine", "echo oh dear; exit 3", "echo never"))
    assert result.returncode == 1
    assert "README.md:3 failed (exit status 3): echo oh dear; exit 3" in result.stderr
    assert "oh dear\n" in result.stderr
    assert "never" not in result.stdout


def test_a_failure_inside_a_pipe_is_a_failure(readme):
    assert readme(fence("sh", "false | cat")).returncode == 1


def test_a_command_that_waits_for_an_answer_gets_none(readme):
    assert readme(fence("sh", "read answer")).returncode == 1


def test_comments_and_blank_lines_are_no_commands(readme):
    result = readme(fence("sh", "# exit 1", "", "true  # exit 1"), "--list")
    assert result.stdout == "README.md:4: true  # exit 1\n"


def test_where_there_are_prompts_the_other_lines_are_output(readme):
    result = readme(fence("sh", "$ echo 2", "2", "$ true"), "--list")
    assert result.stdout == "README.md:2: echo 2\nREADME.md:4: true\n"


def test_a_backslash_continues_a_command(readme):
    result = readme(fence("sh", "test 1 \\", "  -eq 1", "false"))
    assert "README.md:4 failed (exit status 1): false" in result.stderr


@pytest.mark.parametrize("language", ["text", "toml", ""])
def test_other_blocks_are_left_alone(readme, language: str):
    assert readme(fence(language, "exit 1") + fence("sh", "true")).returncode == 0


@pytest.mark.parametrize(
    "command",
    [
        "make demo",
        "make",
        "git clone https://example.org/airpool && cd airpool",
        "cd airpool",
        "pip install -e .",
    ],
)
def test_what_ci_does_itself_is_skipped_with_a_note(readme, command: str):
    result = readme(fence("sh", command))
    assert result.returncode == 0
    assert result.stdout == f"README.md:2: {command}  (skipped: CI does this itself)\n"


def test_only_whole_words_are_skipped(readme):
    assert readme(fence("sh", "makeshift")).returncode == 1


def test_a_python_block_runs_as_one_script(readme):
    result = readme(fence("python", "def double(x):", "    return 2 * x", "", "assert double(2) == 4"))
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("README.md:2: python block  (")


def test_a_traceback_of_a_python_block_gives_the_line_in_the_readme(readme):
    result = readme("# Title\n\n" + fence("python", "x = 1", "assert x == 2"))
    assert result.returncode == 1
    assert "line 5" in result.stderr
    assert "README.md:4 failed (exit status 1): python block" in result.stderr


def test_list_runs_nothing(readme):
    result = readme(fence("sh", "exit 1"), "--list")
    assert (result.returncode, result.stdout) == (0, "README.md:2: exit 1\n")


def test_a_readme_with_nothing_to_run_is_an_error(readme):
    result = readme("# Title\n")
    assert result.returncode == 1
    assert "nothing was checked" in result.stderr
