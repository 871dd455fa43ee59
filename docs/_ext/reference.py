"""The reference, made at build time from docstrings, from the commands and from the fields of a network.

`pages` gives every page as Markdown; `setup` writes them to docs/reference/generated, which git ignores.
"""

import ast
import builtins
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

import public
from public import PAGES, Public, commands, members

import airpool
from airpool._support.plugins import Registry
from airpool.cli import GROUPS
from airpool.cli.examples import EXAMPLES
from airpool.cli.help import options_by_group
from airpool.evaluation.settings import KEYS
from airpool.network import Adversary, Channel, Devices, Network, Ranking, Slots, Threshold
from airpool.network.rules import Rule, rules_of

# Groups of options that describe a network, which many commands share: folded.
_SHARED = ("Devices", "Channel", "Scheme", "Guarantee", "Slots")
_UNITS = {"db": "dB", "dbm": "dBm", "bound": "bits", "threshold": "bits", "phase_error_std": "radians"}


class Listed(NamedTuple):
    """Types of fields, and fields that are not public."""

    types: Mapping[str, str]
    inner: Set[str]


def pages() -> dict[str, str]:
    """Name of a page → its Markdown."""
    found = {name: _names(page) for name, page in PAGES.items()}
    found |= {f"commands-{_slug(group)}": _commands(group) for group in GROUPS}
    return found | {"network-file": _network_file()}


def _slug(text: str) -> str:
    return text.lower().replace(" ", "-")


# Names


def _names(page: public.Page) -> str:
    parts = [f"# {page.title}", page.about]
    for each in map(public.public, page.names):
        parts += [f"## {each.last.replace('_', chr(92) + '_')}", _entry(each)]
    return "\n\n".join(parts) + "\n"


def _entry(top: Public) -> str:
    """A class with its members, a function, or data, as directives that search and cross references know."""
    kind = {"class": "class", "function": "function"}.get(top.kind, "data")
    if top.kind == "class" and issubclass(top.value, Exception):
        kind = "exception"
    inner = [f":::{{py:{_directive(each)}}} {_head(each)}\n\n{_body(each)}\n:::" for each in _described(top)]
    return "\n\n".join([f"::::{{py:{kind}}} {_head(top)}", _body(top), *inner, "::::"])


def _described(top: Public) -> list[Public]:
    """Members with a docstring of their own; fields are described in that of the class."""
    return [each for each in members(top) if each.kind != "field"]


def _directive(each: Public) -> str:
    return "property" if each.kind == "property" else "method"


def _head(each: Public) -> str:
    """Name and signature, with annotations as they are written."""
    name = each.name if each.kind not in ("method", "property") else each.last
    called = each.signature
    if called is None:
        return name
    types, parts, last = _annotations(each), list[str](), None
    for p in called.parameters.values():
        if p.kind is p.KEYWORD_ONLY and last not in (p.KEYWORD_ONLY, p.VAR_POSITIONAL):
            parts.append("*")
        if last is p.POSITIONAL_ONLY and p.kind is not last:
            parts.append("/")
        star = {p.VAR_KEYWORD: "**", p.VAR_POSITIONAL: "*"}.get(p.kind, "")
        typed = f": {types[p.name]}" if p.name in types else ""
        equals = " = " if typed else "="
        parts.append(f"{star}{p.name}{typed}" + ("" if p.default is p.empty else f"{equals}{p.default!r}"))
        last = p.kind
    if last is inspect.Parameter.POSITIONAL_ONLY:
        parts.append("/")
    returned = f" -> {types['return']}" if "return" in types else ""
    return f"{name}({', '.join(parts)}){returned}"


def _annotations(each: Public) -> dict[str, str]:
    """Annotations of parameters or fields, as the source has them."""
    if each.kind == "class":
        found = dict[str, str]()
        for kind in reversed(each.value.__mro__):
            if kind.__module__.startswith("airpool."):
                (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
                assert isinstance(tree, ast.ClassDef)
                own = (e for e in tree.body if isinstance(e, ast.AnnAssign) and isinstance(e.target, ast.Name))
                found |= {ast.unparse(e.target): _written(e.annotation) for e in own}
        return found
    function = inspect.unwrap(getattr(each.value, "__func__", each.value))
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef)
    given = [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]
    found = {e.arg: _written(e.annotation) for e in given if e.annotation is not None}
    return found | ({} if tree.returns is None else {"return": _written(tree.returns)})


def _written(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Annotated" and isinstance(node.slice, ast.Tuple):
        node = node.slice.elts[0]
    return re.sub(r"\bFloats\b", "NDArray[float64]", re.sub("['\"]", "", ast.unparse(node)))


def _body(each: Public) -> str:
    """The docstring as Markdown; with the type of each field, where no signature has it."""
    if isinstance(each.value, Registry):
        return _registry(each)
    types = _annotations(each) if each.kind == "class" or each.signature is not None else {}
    names = {*types, *(each.signature.parameters if each.signature else ()), *(e.last for e in members(each))}
    own = [e.last for e in members(each) if e.kind == "field" and not e.last.isupper()]
    listed = {name: types.get(name, "") for name in own} if each.kind == "class" and each.signature is None else {}
    inner = set(types) - set(own) if listed else set[str]()
    text = markdown(each.doc, names, Listed(listed, inner), lambda code: _complete(each, code))
    left = [_typed(name, listed) for name in listed if not re.search(rf"^- .*`{name}`( \(|:|,)", text, re.M)]
    before, code, after = text.partition("```pycon")
    return before + (f"Also: {', '.join(left)}.\n\n" if left else "") + code + after


def _registry(each: Public) -> str:
    """A registry: its entry points, airpool's own members, and how to ask it."""
    known: Registry[Any] = each.value
    first = next(iter(known.builtin))
    code = f">>> {each.last}.names()\n{tuple(known.builtin)}\n>>> {each.last}.origin({first!r}) is None\nTrue"
    return (
        f"The registry of the kind `{known.what}`, with the entry points `{known.group}`. `names()` gives all names, "
        "`get(name)` the member, `origin(name)` the plug-in that it comes from, None for airpool's own.\n\n"
        f"```pycon\n>>> from {each.name.rpartition('.')[0]} import {each.last}\n{code}\n```"
    )


def _typed(name: str, types: Mapping[str, str]) -> str:
    return f"`{name}`" + (f" (`{types[name]}`)" if types.get(name) else "")


def _complete(each: Public, code: str) -> str:
    """An example with the imports that its module spares it, and with the public name of what it shows."""
    module = sys.modules[
        getattr(inspect.unwrap(getattr(each.value, "func", each.value)), "__module__", "") or "airpool"
    ]
    own = getattr(each.value, "__name__", each.last)
    if own != each.last and each.kind == "function":
        code = re.sub(rf"\b{own}\(", f"{each.last}(", code)
    source = "\n".join(line[4:] for line in code.splitlines() if line.startswith((">>> ", "... ")))
    tree = ast.parse(source)
    loaded = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    made = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    made |= {a.asname or a.name for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom) for a in n.names}
    made |= {n.name for n in ast.walk(tree) if isinstance(n, ast.ClassDef | ast.FunctionDef)}
    made |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    lines, of = list[str](), dict[str, list[str]]()
    for name in sorted(loaded - made):
        value = getattr(module, name, None)
        if name in airpool.__all__:
            of.setdefault("airpool", []).append(name)
        elif isinstance(value, ModuleType):
            lines.append(f"import {value.__name__}" + (f" as {name}" if value.__name__ != name else ""))
        elif value is not None and not hasattr(builtins, name):
            listed = (full.rpartition(".")[0] for full in _homes() if full.endswith(f".{name}"))
            defined = value.__module__ if hasattr(value, "__name__") else module.__name__
            of.setdefault(next(listed, defined), []).append(name)
    lines += [f"from {home} import {', '.join(names)}" for home, names in sorted(of.items())]
    return "".join(f">>> {line}\n" for line in lines) + code


@cache
def _homes() -> list[str]:
    return [name for page in PAGES.values() for name in page.names]


def markdown(
    doc: str,
    names: Set[str] = frozenset(),
    listed: Listed | None = None,
    shown: Callable[[str], str] = lambda code: code,
) -> str:
    """A docstring as Markdown: arguments as a list, formulas and examples as blocks of their own.

    names: arguments or fields, of which a docstring says `name: text`. listed: those that
    are given a type, or left out. shown: an example as it is printed.
    """
    parts = list[str]()
    examples = list[str]()
    for block in re.split(r"\n\s*\n", doc.strip()):
        lines = block.splitlines()
        number = next((i for i, line in enumerate(lines) if line.lstrip().startswith(">>>")), len(lines))
        said, code = lines[:number], lines[number:]
        if said and all(line.startswith("    ") for line in said):
            parts.append(f"```text\n{textwrap.dedent(chr(10).join(said))}\n```")
        elif said:
            parts.append(_paragraphs(" ".join(line.strip() for line in said), names, listed or Listed({}, set())))
        if code:
            examples.append(textwrap.dedent("\n".join(code)))
    if examples:
        parts.append(f"```pycon\n{shown(chr(10).join(examples))}\n```")
    return "\n\n".join(parts)


def _paragraphs(text: str, names: Set[str], listed: Listed) -> str:
    """Prose, then a list of the arguments that it describes, then what holds and what does not."""
    said = "|".join(sorted(map(re.escape, names), key=len, reverse=True)) or "(?!)"
    labels = rf"(?:^|(?<=[.;:)] ))((?:{said})(?:, (?:{said}))*|Holds for|Edge cases?|Tight to 1e-3): "
    pieces = re.split(labels, text)
    out = [_linked(pieces[0].strip())] if pieces[0].strip() else []
    rows = list[str]()
    for label, text_of in zip(pieces[1::2], pieces[2::2], strict=True):
        told = _linked(text_of.strip().removesuffix(";"))
        if label[0].isupper() and label not in names:
            rows.append(f"\n**{label}:** {told}")
            continue
        if shown := [each for each in label.split(", ") if each not in listed.inner]:
            rows.append("- " + ", ".join(_typed(each, listed.types) for each in shown) + f": {told}")
    return "\n\n".join([*out, *(["\n".join(rows)] if rows else [])])


def _linked(text: str) -> str:
    """Pages that a docstring names, as links; public names in backticks too; what is no markup, escaped."""
    text = re.sub(
        r"(?:docs/)?\b(theory|howto|proofs|results|project|reference)/([\w-]+)\.md", r"[\1/\2](../../\1/\2.md)", text
    )
    text = text.replace("(../../reference/network-file.md)", "(network-file.md)")
    homes = {name.rpartition(".")[2]: name for name in _homes()}
    text = re.sub(
        r"`(?:airpool\.)?(\w+)`", lambda m: f"{{py:obj}}`{m[1]} <{homes[m[1]]}>`" if m[1] in homes else m[0], text
    )
    plain = re.split(r"(`[^`]*`|\[[^\]]*\]\([^)]*\))", text)
    return "".join(each if at % 2 else _escaped(each) for at, each in enumerate(plain))


def _escaped(text: str) -> str:
    """Prose without markup: options as code, and what Markdown would take for markup as it is."""
    return re.sub(r"(?<!\w)--[a-z][\w-]*", r"`\g<0>`", text.replace("<", "\\<").replace("$", "\\$"))


# Commands


def _commands(group: str) -> str:
    parts = [f"# Commands: {group}", "", "Options that describe a network are the same everywhere, and folded."]
    for words, command, ctx in commands():
        if words.split(" ")[0] not in GROUPS[group]:
            continue
        level = "##" if " " not in words else "###"
        parts += [f"({_slug('command ' + words).replace(' ', '-')})=", f"{level} airpool {words}", ""]
        parts += [_linked(" ".join(each.split())) + "\n" for each in inspect.cleandoc(command.help or "").split("\n\n")]
        parts += [f"```text\n{command.get_usage(ctx).removeprefix('Usage: ')}\n```", ""]
        if words in EXAMPLES:
            shown = "\n".join(f"airpool {each}" for each in EXAMPLES[words])
            parts += [f"```bash\n{shown}\n```", ""]
        parts += [f"```{{program}} airpool {words}\n```", ""]
        for title, rows in options_by_group(command, words, ctx).items():
            parts += _options(title, rows)
    return "\n".join(parts) + "\n"


def _options(title: str, rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    folded = title.split(" ", maxsplit=1)[0] in _SHARED
    name = title.replace("<", "&lt;")
    yield f"<details><summary>{name}</summary>\n" if folded else f"**{name}**\n"
    for written, text in rows:
        option = re.sub(r"--\[no-\](\S+)", r"--\1, --no-\1", written)
        yield f":::{{option}} {option}\n{_linked(text.replace(chr(160), ' ')) or ' '}\n:::\n"
    if folded:
        yield "</details>\n"


# The network file


def _network_file() -> str:
    evaluate = next(command for words, command, _ in commands() if words == "evaluate")
    help_of = {param.name: param.help for param in evaluate.params}
    said = {place: help_of.get(option) or "" for option, place in KEYS.items()}
    tables = {
        "": Network,
        "devices": Devices,
        "channel": Channel,
        "scheme": None,
        "adversary": Adversary,
        "slots": Slots,
    }
    parts = [
        "# The network file",
        "A network as versioned TOML, which {py:obj}`read_network <airpool.read_network>` reads, every command "
        "takes by `--network`, and `airpool calibrate --out` and `airpool plan --out` write. A number stands for all "
        "devices, a list gives one value for each. What is left out has its default; an unknown key is an error.",
        "```toml\nversion = 2\ndimension = 40\ndelta = 1e-5\n\n[devices]\ncount = 3\nnoise_std = [0.05, 0.05, 0.1]\n\n"
        '[channel]\nfading = "rician"\nnoise_std = 0.1\n\n[scheme]\nname = "2.1"\nthreshold = 0.5\n```',
    ]
    for table, kind in tables.items():
        parts.append(f"## [{table}]" if table else "## At the top")
        rows = ["| key | value | default | meaning |", "| --- | --- | --- | --- |"]
        if not table:
            rows.append("| `version` | 1 or 2 | required | of the file format; new files have 2 |")
        if kind is None:
            rows.append(f"| `name` | 1, 2.1, 2.2, or a plug-in's | 1 | {said['scheme', 'name']} |")
        for field in _settings(kind):
            allowed, default = _allowed(kind or _owner(field.name), field.name), _default(field)
            meaning = (said.get((table, field.name)) or _TARGET).partition("; or which")[0]  # of the command line alone
            unit = f" ({unit})" if (unit := _unit(table, field.name)) else ""
            rows.append(f"| `{field.name}` | {allowed}{unit} | {default} | {_linked(meaning)} |")
        parts.append("\n".join(rows))
    parts.append(
        "Settings of a plug-in's scheme stand beside its name in `[scheme]` ([plug-ins](../../howto/plugins.md)). "
        "Versions and upgrades: [upgrades](../../howto/upgrades.md)."
    )
    return "\n\n".join(parts) + "\n"


_TARGET = "Target ε of each device, for `calibrate`, `plan` and `design`."


def _settings(kind: Any) -> list[Any]:
    if kind is not None:
        return [
            field for field in fields(kind) if field.name not in ("devices", "channel", "scheme", "adversary", "slots")
        ]
    return list({field.name: field for each in (Threshold, Ranking) for field in fields(each)}.values())


def _owner(name: str) -> Any:
    return Threshold if name in rules_of(Threshold) else Ranking


def _allowed(kind: Any, name: str) -> str:
    """Values that a field may have, in words."""
    rule = rules_of(kind).get(name)
    if isinstance(rule, Rule):
        auto = 'a number or `"auto"`, ' if name == "gamma" else ""
        return auto + rule.allowed.removeprefix("must be ").replace("<", "\\<").replace(">=", "≥").replace(">", "\\>")
    if isinstance(rule, range):
        return f"whole, {rule[0]} to {rule[-1]:,}"
    if rule is bool:
        return "true or false"
    if rule is not None:
        return ", ".join(f"`{each}`" for each in rule)
    return "whole, 0 to K − 1" if name in ("colluders", "dropouts") else "the name of a law"


def _unit(table: str, name: str) -> str:
    if (table, name) == ("channel", "noise_std"):
        return "√mW"
    return _UNITS.get(name) or _UNITS.get(
        name.rpartition("_")[2], "bits" if name.startswith("score_") and "rule" not in name else ""
    )


def _default(field: Any) -> str:
    if field.name == "weight":
        return "1/K"
    if field.default is MISSING:
        return "required"
    value = field.default
    return "none" if value is None else f"`{str(value).lower() if isinstance(value, bool) else value}`"


def setup(app: Any) -> dict[str, bool]:
    def written(app: Any) -> None:
        folder = Path(app.srcdir) / "reference" / "generated"
        folder.mkdir(exist_ok=True)
        made = pages()
        for name, text in made.items():
            path = folder / f"{name}.md"
            if not path.exists() or path.read_text("utf-8") != text:
                path.write_text(text, encoding="utf-8")
        for path in folder.glob("*.md"):
            if path.stem not in made:
                path.unlink()

    app.connect("builder-inited", written)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
