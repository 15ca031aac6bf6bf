"""Write the reference from the docstrings: ``python docs/make_api.py`` makes ``api.md``.

It reads all public names of the public modules of ``optuna_pcts``. The docstrings are simple, so
that the standard library is enough.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import textwrap
from types import ModuleType
from typing import Any

from generated import write_or_check

import optuna_pcts


HEADER = """# Reference

Made from the docstrings by `python docs/make_api.py`; do not edit.

"""

# What belongs together, and in which order; all other names of a module come after these.
GROUPS = {
    "The search": ["PCTSSampler"],
    "Policies": ["DUCBV", "DUCB1Sigma", "DUCB1", "Policy", "NodeStatistics"],
    "How smooth the objective is": [
        "UnknownSmoothness",
        "POOSmoothness",
        "Smoothness",
        "SmoothnessModel",
        "rank_instances",
        "Instance",
    ],
    "How far trials are evaluated": ["PCTSPruner", "fidelity", "DepthFidelity", "LinearBias"],
    "The answer": ["recommend", "Recommendation", "report", "Report"],
    "How late feedback is": ["delays", "Delay"],
    "What trials cost": [
        "CostBudget",
        "trial_cost",
        "fit_cost",
        "CostFit",
        "FittedCost",
        "CostModel",
        "ConstantCost",
        "LinearGrowth",
        "PolynomialDecay",
        "ExponentialCost",
    ],
}

SECTIONS = ("Args", "Attributes", "Returns", "Raises", "Yields", "Example", "Note")
LINE = 88


def modules() -> list[ModuleType]:
    """Return the package and its public modules."""
    found = [optuna_pcts]
    for info in pkgutil.walk_packages(optuna_pcts.__path__, "optuna_pcts."):
        if not any(part.startswith("_") for part in info.name.split(".")):
            found.append(importlib.import_module(info.name))
    return found


def public(module: ModuleType) -> list[str]:
    """Return the names that a module offers: its ``__all__``, or what it defines itself."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(thing) or inspect.isfunction(thing))
        and thing.__module__ == module.__name__
    ]


def grouped(module: ModuleType) -> dict[str, list[str]]:
    """Return the names of a module by the heading they stand under."""
    names = public(module)
    if module is not optuna_pcts:
        return {f"`{module.__name__}`": names}
    groups = {title: [n for n in group if n in names] for title, group in GROUPS.items()}
    seen = {name for group in groups.values() for name in group}
    groups["Others"] = [name for name in names if name not in seen]
    return {title: group for title, group in groups.items() if group}


class Anchors:
    """The anchors that code hosts give to headings: the second of two equal ones has a number."""

    def __init__(self) -> None:
        self._of: dict[str, str] = {}

    def add(self, heading: str) -> None:
        plain = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        n_before = sum(re.sub(r"-\d+$", "", other) == plain for other in self._of.values())
        self._of[heading] = f"{plain}-{n_before}" if n_before else plain

    def link(self, name: str, heading: str) -> str:
        """Return a link to a heading, or only the name if there is none."""
        return f"[`{name}`](#{self._of[heading]})" if heading in self._of else f"`{name}`"


ANCHORS = Anchors()


# ---------------------------------------------------------------------- signatures


def signature(name: str, thing: Any) -> str:
    """Return the signature of a class or a function, as source code."""
    try:
        parameters = list(inspect.signature(thing).parameters.values())
    except ValueError:  # a class without a constructor of its own
        return name
    if inspect.isclass(thing) and getattr(thing, "_is_protocol", False):
        return name
    parts: list[str] = []
    for i, parameter in enumerate(parameters):
        if parameter.name == "self":
            continue
        kind = parameter.kind
        before = parameters[i - 1].kind if i else None
        if kind is parameter.KEYWORD_ONLY and before not in (kind, parameter.VAR_POSITIONAL):
            parts.append("*")
        text = str(parameter.replace(annotation=parameter.empty, default=parameter.empty))
        if parameter.annotation is not parameter.empty:
            text += f": {annotation(parameter.annotation)}"
        if parameter.default is not parameter.empty:
            equals = " = " if ":" in text else "="
            text += f"{equals}{parameter.default!r}".replace("'", '"')
        parts.append(text)
    returned = inspect.signature(thing).return_annotation
    arrow = "" if inspect.isclass(thing) or returned is inspect.Signature.empty else " -> "
    arrow += annotation(returned) if arrow else ""
    line = f"{name}({', '.join(parts)}){arrow}"
    if len(line) <= LINE:
        return line
    return f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){arrow}"


def annotation(given: Any) -> str:
    """Return an annotation as it stands in the source."""
    if isinstance(given, str):
        return given.strip("'\"")
    return str(given.__name__) if isinstance(given, type) else str(given).replace("typing.", "")


# ---------------------------------------------------------------------- docstrings


def inline(text: str) -> str:
    """Turn the markup within a line into Markdown; public names become links."""

    def reference(match: re.Match[str]) -> str:
        target = match[1].lstrip("~")
        return ANCHORS.link(target, target.split(".")[0])

    text = re.sub(r":\w+:`([^`]+)`", reference, text)
    return re.sub(r"``([^`]+)``", r"`\1`", text)


def markdown(docstring: str) -> str:
    """Turn a docstring in Google's style into Markdown."""
    blocks = re.split(rf"^({'|'.join(SECTIONS)}):\n", docstring + "\n", flags=re.MULTILINE)
    out = [prose(blocks[0])]
    for title, body in zip(blocks[1::2], blocks[2::2]):
        body = textwrap.dedent(body).strip()
        out.append(f"**{title}:**")
        if title in ("Args", "Attributes", "Raises"):
            out.append(entries(body))
        else:
            out.append(prose(body))
    return "\n\n".join(part for part in out if part)


def prose(text: str) -> str:
    """Return paragraphs, and code as indented blocks."""
    text = re.sub(r"^\.\. code-block:: \w+\n", "", text.strip(), flags=re.MULTILINE)
    parts = re.split(r"(\n\n(?: {4}.*(?:\n|$)|\n(?= {4}))+|^(?:\s* {4}.*(?:\n|$))+)", text)
    out = []
    for i, part in enumerate(parts):
        if i % 2:
            code = inspect.cleandoc("\n" + part).strip("\n")
            out.append("```text\n" + code + "\n```")
        elif part.strip():
            out.append(re.sub(r"::$", ":", inline(part.strip())))
    return "\n\n".join(out)


def entries(body: str) -> str:
    """Return a list of named things with a description each."""
    out = []
    for entry in re.split(r"\n(?=\S)", body):
        name, _, rest = entry.partition(":")
        rest = inspect.cleandoc("\n" + rest if rest.startswith("\n") else rest.strip())
        text = prose(rest).replace("\n", "\n  ").replace("\n  \n", "\n\n")
        shown = ", ".join(f"`{part.strip()}`" for part in name.split(","))
        out.append(f"- {shown}: {text}")
    return "\n".join(out)


# ---------------------------------------------------------------------- the page


def members(thing: Any) -> list[str]:
    """Return the documented methods and properties of a class, as they stand in the source.

    Those of our base classes come after its own. Hooks of Optuna have no words of their own.
    """
    found: list[str] = []
    for base in thing.__mro__:
        if base.__module__.startswith("optuna_pcts"):
            found += [name for name in vars(base) if name not in found]
    return [name for name in found if not name.startswith("_") and words(thing, name)]


def words(thing: Any, name: str) -> str:
    """Return the docstring of a method or a property, and nothing for what is neither."""
    member = inspect.getattr_static(thing, name)
    has_words = inspect.isfunction(member) or isinstance(member, property)
    return inspect.cleandoc(member.__doc__ or "") if has_words else ""


def describe(title: str, name: str, thing: Any, shown: dict[Any, str]) -> list[str]:
    """Return the paragraphs on a class or a function.

    Args:
        title:
            Its heading.
        name:
            Its name.
        thing:
            The class or function.
        shown:
            Methods that stand on the page already, and where. What several classes inherit
            stands there once.
    """
    out = [f"### {title}", f"```text\n{signature(name, thing)}\n```"]
    out.append(markdown(inspect.getdoc(thing) or ""))
    for method in members(thing) if inspect.isclass(thing) else ():
        member = inspect.getattr_static(thing, method)
        if member in shown:
            out.append(f"`.{method}`: see {ANCHORS.link(shown[member], shown[member])}.")
            continue
        shown[member] = title
        is_property = isinstance(member, property)
        head = f".{method}" if is_property else signature(f".{method}", member)
        out += [f"```text\n{head}\n```", markdown(words(thing, method))]
    return out


def page(_: str = "") -> str:
    found = [(module, *group) for module in modules() for group in grouped(module).items()]
    titles: dict[tuple[ModuleType, str], str] = {}
    for module, group, names in found:
        prefix = module.__name__.removeprefix("optuna_pcts").removeprefix(".")
        titles |= {(module, name): f"{prefix}.{name}".lstrip(".") for name in names}
        for heading in (group, *(titles[module, name] for name in names)):
            ANCHORS.add(heading)
    contents: list[str] = []
    body: list[str] = []
    shown: dict[Any, str] = {}
    for module, group, names in found:
        links = [ANCHORS.link(name, titles[module, name]) for name in names]
        contents.append(f"- {group}: {', '.join(links)}")
        body.append(f"## {group}")
        if module is not optuna_pcts:
            body.append(markdown(inspect.getdoc(module) or ""))
        for name in names:
            body += describe(titles[module, name], name, getattr(module, name), shown)
    return HEADER + "\n".join(contents) + "\n\n" + "\n\n".join(body) + "\n"


if __name__ == "__main__":
    write_or_check((__doc__ or "").splitlines()[0], "api.md", page)
