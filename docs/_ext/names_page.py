"""A page of the reference: its public names, each with its signature, its docstring and its members."""

import ast
import builtins
import inspect
import re
import sys
import textwrap
from types import ModuleType
from typing import Any, Unpack, get_args, get_origin, get_overloads

import public
from docstrings import Listed, homes, markdown, typed
from public import Public, members

import airpool
from airpool._support.plugins import Registry


def page_of(page: public.Page) -> str:
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
    names |= _of_overloads(each.value)
    own = [e.last for e in members(each) if e.kind == "field" and not e.last.isupper()]
    listed = {name: types.get(name, "") for name in own} if each.kind == "class" and each.signature is None else {}
    inner = set(types) - set(own) if listed else set[str]()
    text = markdown(each.doc, names, Listed(listed, inner), lambda code: _complete(each, code))
    left = [typed(name, listed) for name in listed if not re.search(rf"^- .*`{name}`( \(|:|,)", text, re.M)]
    before, code, after = text.partition("```pycon")
    also = [f"Also: {', '.join(left)}."] if left else []
    return "\n\n".join([*filter(None, [before.rstrip()]), *also, *filter(None, [code + after])])


def _of_overloads(function: Any) -> set[str]:
    """Arguments that only the overloads of a function name: its own signature has **options for them."""
    found = set[str]()
    for each in get_overloads(function) if inspect.isfunction(function) else ():
        for p in inspect.signature(each).parameters.values():
            unpacked = get_origin(p.annotation) is Unpack
            found |= set(get_args(p.annotation)[0].__annotations__) if unpacked else {p.name}
    return found


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
            listed = (full.rpartition(".")[0] for full in homes() if full.endswith(f".{name}"))
            defined = value.__module__ if hasattr(value, "__name__") else module.__name__
            of.setdefault(next(listed, defined), []).append(name)
    lines += [f"from {home} import {', '.join(names)}" for home, names in sorted(of.items())]
    return "".join(f">>> {line}\n" for line in lines) + code
