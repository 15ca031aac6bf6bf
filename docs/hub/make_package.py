"""Make the package for OptunaHub: ``python docs/hub/make_package.py [FOLDER]``.

It writes ``FOLDER/package/samplers/pcts``, the layout of the registry. Give it a clone of the
registry as FOLDER, and the result can be committed there and submitted.

The package holds copies of the modules, with relative imports, and does not depend on
``optuna-pcts``: what is loaded from OptunaHub is expected to work with nothing else installed.
Only the modules that the public names need are copied. The copies are not kept in this repository,
where they would have to be kept up to date; the tests make the package, load it and run its
example.
"""

from __future__ import annotations

import argparse
from pathlib import Path
import re
import shutil

import optuna_pcts


HERE = Path(__file__).parent
ROOT = HERE.parent.parent
NAME = "package/samplers/pcts"

_IMPORT = re.compile(r"^from optuna_pcts\.([\w.]+) import ", flags=re.MULTILINE)


def needed(source: Path) -> list[Path]:
    """Return the modules that the package itself imports, directly or not, and itself."""
    found: list[Path] = []
    left = [source / "__init__.py"]
    while left:
        path = left.pop()
        if path in found:
            continue
        found.append(path)
        for name in _IMPORT.findall(path.read_text(encoding="utf-8")):
            module = source.joinpath(*name.split("."))
            left.append(module / "__init__.py" if module.is_dir() else module.with_suffix(".py"))
            if module.parent != source:
                left.append(module.parent / "__init__.py")
    return sorted(found)


def make(folder: Path) -> Path:
    """Write the package below a folder, in place of an earlier one, and return where it is."""
    target = folder / NAME
    if target.exists():
        shutil.rmtree(target)
    (target / "images").mkdir(parents=True)
    source = ROOT / "optuna_pcts"
    for path in needed(source):
        relative = path.relative_to(source)
        dots = "." * len(relative.parts)
        text = _IMPORT.sub(rf"from {dots}\1 import ", path.read_text(encoding="utf-8"))
        (target / relative).parent.mkdir(exist_ok=True)
        (target / relative).write_text(text, encoding="utf-8")
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    readme = readme.replace("{version}", optuna_pcts.__version__)
    (target / "README.md").write_text(readme, encoding="utf-8")
    shutil.copyfile(HERE / "example.py", target / "example.py")
    shutil.copyfile(ROOT / "LICENSE", target / "LICENSE")
    # The first picture of the page is its thumbnail.
    picture = ROOT / "docs" / "pictures" / "tree.png"
    shutil.copyfile(picture, target / "images" / "thumbnail.png")
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=ROOT / "build" / "optunahub",
        help="where to write package/samplers/pcts (build/optunahub)",
    )
    print(make(parser.parse_args().folder))


if __name__ == "__main__":
    main()
