"""Help in groups, examples, completion of values, and errors in the words that were typed."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from typer.testing import CliRunner

from airpool import cli
from airpool.account.calibration import Adjust
from airpool.cli import help, options, typed, values
from airpool.evaluation.settings import FUNCTIONS, KEYS
from airpool.models.pretrained import load
from airpool.models.stored import SPLITS
from airpool.network import AccessName, Neighbours, PowerRule, Score, ScoreRule
from airpool.protocol.inference import Baseline
from airpool_lab.attacks.positions import POSITIONS
from airpool_lab.paper import figures
from tests.commands import leaves, parsed

PLUGIN = Path(__file__).parents[2] / "examples" / "plugins" / "fading.py"


def shown(*words, columns=80):
    done = CliRunner().invoke(cli.app, [*words, "-h"], env={"COLUMNS": str(columns)}, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


# Help


def test_every_option_of_a_network_stands_in_a_group_of_its_own_kind():
    (command,) = (each for path, each in leaves() if path == ("epsilon",))
    groups = {param.name: help.group_of(param) for param in command.params}
    assert {groups[name] for name in options._NETWORK} == set(options._GROUPS)
    assert not [name for name in KEYS if groups[name] in (help.OPTIONS, help.OUTPUT)]
    assert {name for name, group in groups.items() if group == help.OUTPUT} == {"json", "plot"}


def test_commands_stand_in_groups_in_the_order_of_the_list():
    text = shown()
    titles = [line for line in text.splitlines() if line in cli.GROUPS]
    assert titles == list(cli.GROUPS)
    assert len(cli.COMMANDS) == sum(map(len, cli.GROUPS.values()))  # none stands in two


def test_usage_names_arguments_as_the_list_below_it_does():
    assert shown("ledger", "show").startswith("Usage: airpool ledger show [OPTIONS] FILE\n")
    assert shown("keys", "device").startswith("Usage: airpool keys device [OPTIONS] NAMES ...\n")


def test_every_command_has_examples_which_parse():
    paths = {" ".join(path) for path, _ in leaves()}
    assert set(help.EXAMPLES) - {""} == paths
    for path, lines in help.EXAMPLES.items():
        for line in lines:
            assert line.startswith(path)
            if not line.startswith("--"):
                parsed(shlex.split(line))


@pytest.mark.parametrize("columns", [40, 80])
@pytest.mark.parametrize("words", [(), ("epsilon",), ("train", "codec"), ("keys",), ("device",)], ids=" ".join)
def test_help_fits_the_terminal_without_frames_and_cuts_nothing(words, columns):
    text = shown(*words, columns=columns)
    assert not set("─│╭╰\u00a0\x1b") & set(text)
    assert re.search(r"\w…", text) is None
    long = [line for line in text.splitlines() if len(line) > columns and len(line.split()) > 1]
    assert [line for line in long if not line.lstrip().startswith(("Usage", "airpool", "--"))] == []
    for name in () if words[:1] != ("epsilon",) else options._NETWORK:
        assert name.replace("_", "-") in text


def test_a_default_is_that_of_the_network():
    text = " ".join(shown("epsilon").split())
    assert "Standard deviation σ of the noise, per coordinate. [default: 0.05]" in text
    assert "[default: 1/K]" in text
    assert "Gains and errors are new in every inference. [default: on]" in text
    assert "Number of devices K. [default: 12]" in " ".join(shown("up").split())
    assert text.count("[default:") >= len(options._NETWORK)


def test_the_help_of_an_option_names_all_its_values():
    kinds = {"access": AccessName, "power_rule": PowerRule, "score": Score, "score_rule": ScoreRule}
    found = {name: get_args(kind) for name, kind in kinds.items()}
    found |= {"neighbours": tuple(Neighbours)}
    for name, known in found.items():
        _, text = options._NETWORK[name]
        assert [each for each in known if not re.search(rf"\b{each}\b", text)] == []


def test_inferences_of_up_are_runs_and_no_stream():
    assert "Inferences to run; ε stays that of one. [default: until Ctrl-C]" in " ".join(shown("up").split())
    assert "Number of inferences that share the ε. [default: 1]" in " ".join(shown("epsilon").split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("epsilno", "Did you mean 'epsilon'"),
        ("simulate", "Did you mean 'evaluate'?"),
        ("help", "Did you mean 'airpool -h'?"),
        ("keys inti", "Did you mean 'init'"),
        ("epsilon --noise-sdt 1", "--noise-std"),
        ("epsilon --devices 3 --fading raleigh", "Did you mean rayleigh?"),
        ("epsilon --devices 3 --fading nakagmi:2", "Did you mean nakagami?"),
        ("epsilon --devices 3 --neighbours zeroout", "Did you mean zero-out?"),
        ("evaluate --codec compct --trials 1", "Did you mean compact?"),
        ("evaluate --model modelnet --trials 1", "Did you mean modelnet40?"),
        ("attack antipodl --devices 3", "Did you mean antipodal?"),
        ("reproduce tabel-2", "Did you mean table-2?"),
        ("sweep epsilom", "Did you mean epsilon?"),
        ("epsilon --devices 3 --sigma 1", "--noise-std"),
        ("epsilon --devices three", "'--devices': 'three' must be a whole number"),
        ("epsilon --devices 3 --delta small", "'--delta': 'small' must be a number"),
        ("epsilon -devices 3", "two dashes"),
        ("epsilon net.toml", "A network file follows --network"),
        ("report --network net.toml", "The network file follows without a name"),
        ("epsilon --network net.tml", "cannot read the network file net.tml: No such file or directory\n"),
        ("epsilon --devices 3 --noise-std 1,2", "error: --noise-std has 2 values for 3 devices"),
        ("audit --devices 3 --score-end hihg", "must be high or low"),
        ("reproduce", "Known are fig-dim"),
    ],
)
def test_a_mistyped_or_odd_line_says_what_may_be_meant(words, said, refused):
    assert said in refused(*words.split())


# Errors in the words that were typed


@pytest.mark.parametrize(
    ("words", "message", "said"),
    [
        ("epsilon --noise-std -1", "devices.noise_std=-1.0 must be >= 0", "--noise-std -1 must be >= 0"),
        ("epsilon --noise-std=1e400", "devices.noise_std=inf must", "--noise-std 1e400 must"),
        ("epsilon --noise-std 1,-2", "devices.noise_std[1]=-2 must be >= 0", "--noise-std 1,-2 must be >= 0"),
        ("epsilon --receiver-noise-std -1", "channel.noise_std=-1.0 must", "--receiver-noise-std -1 must"),
        ("epsilon --noise-std 2", "channel.noise_std=2.0 must", "channel.noise_std=2.0 must"),
        ("epsilon --noise-std 3", "devices.noise_std=2.0 must", "devices.noise_std=2.0 must"),
        ("epsilon --slots 0", "slots.count=0 must", "--slots 0 must"),
        ("epsilon --devices 3", "count=3 is something else", "count=3 is something else"),
        ("sweep epsilon --set x", "--set 'x' must be NAME=V1", "--set 'x' must be NAME=V1"),
    ],
)
def test_an_error_names_the_option_that_was_typed_and_no_other(words, message, said):
    assert typed.in_words_of(words.split(), message) == said


def test_a_value_of_a_file_is_named_with_its_file_and_key(tmp_path):
    path = tmp_path / "net.toml"
    path.write_text("version = 3\n[devices]\ncount = 3\nnoise_std = [0.1, 0.0, 0.1]\n")
    words = ["calibrate", "--network", str(path)]
    message = "devices.noise_std[1]=0 must be > 0"
    assert typed.in_words_of(words, message) == f"{path}: {message}"
    assert typed.in_words_of([*words, "--noise-std", "0"], message) == "--noise-std 0 must be > 0"
    assert typed.in_words_of(words, "devices.noise_std[1]=7 must be > 0") == "devices.noise_std[1]=7 must be > 0"


# Completion


EMPTY = ("", '""')
COMPLETED = {
    "airpool ep": ["epsilon"],
    "airpool epsilon --noi": ["--noise-std"],
    "airpool epsilon --fading ra": ["rayleigh"],
    "airpool keys re": ["revoke", "reissue"],
    "airpool reproduce table": ["table-1", "table-2"],
    "airpool evaluate --model photos --codec ": ["vote", "compact"],
    f"airpool epsilon --plugin {PLUGIN} --fading w": ["weibull"],
    "airpool epsilon --plot ": [],  # names of files are the shell's
}


def test_bash_completes_commands_options_and_values(tmp_path):
    program, bash = Path(sys.executable).with_name("airpool"), shutil.which("bash")
    if bash is None or not program.exists():
        pytest.skip("needs bash and the installed program")
    (tmp_path / "airpool").symlink_to(program)
    ask = '_airpool_completion airpool; echo "${COMPREPLY[*]}" | tr "\\n" " "; echo'
    asked = [f"COMP_WORDS=({line} {EMPTY[line[-1] == ' ']}); COMP_CWORD={line.count(' ')}; {ask}" for line in COMPLETED]
    script = 'eval "$(_AIRPOOL_COMPLETE=source_bash airpool)"\n' + "\n".join(asked)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run([bash, "--norc", "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert dict(zip(COMPLETED, map(str.split, done.stdout.splitlines()), strict=True)) == COMPLETED


def test_no_completion_imports_torch():
    code = """
import sys
from airpool.cli.values import VALUES
assert all([*known({})] for known in VALUES.values())
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_values_that_are_written_out_are_those_of_the_library():
    found = {name: [*known({})] for name, known in values.VALUES.items()}
    assert found["reproduce name"] == [*figures.IDS, "all"]
    assert found["position"] == [*POSITIONS]
    assert found["sweep function"] == [*FUNCTIONS]
    assert found["codec"] == [*load("modelnet40").codecs]
    assert found["adjust"] == [*get_args(Adjust)]
    assert found["baseline"] == [*get_args(Baseline)]
    assert found["split"] == [*reversed(SPLITS)]
