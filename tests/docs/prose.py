"""Phrases that public text must not contain: `python -m tests.docs.prose` names each place, and what to write.

It reads the pages in Markdown without their code, and of the package docstrings, comments and texts of messages.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs/**/*.md")
CODE = "rollout/**/*.py"
SHIPPED_DATA = "rollout/examples/datasets"
DIALECT = {
    r"\b(?:is|are|be|has|unless) told\b|\btold (?:apart|on)\b": "is given, reported, asked",
    r"\bso many\b": "N, that many",
    r"\banew\b": "again, from the start",
    r"\bto be had\b": "available",
    r"\bstands? instead\b": "replaces",
    r"\bstands? (?:in|under)\b": "is in",
    r"\b(?:no|some)body\b": "nothing, no user, someone: name the part that acts",
    r"\bwhat there (?:is|was) to\b": "(delete, or name it)",
    r"\bone's own\b": "your own",
    r"\b[Tt]he seed's\b|\bas the seed (?:has|does)\b": "of earlier scripts, WebGym-compatible: name the project",
    r"\b[Mm]end(?:s|ed)?\b": "fix",
    r"\bstranger\b": "black-box review, reader",
    r"\b[Tt]ried again are\b": "Only ... are retried",
    r"\bfor want of\b": "without, for lack of",
    r"\bto the letter\b": "exactly, byte for byte",
    r"\bas ever\b": "as usual, unchanged",
    r"\bgoes? by\b|\bgo by\b": "uses, follows",
    r"\bfor ever\b": "forever, always",
    r"\bthrice\b|\bhenceforth\b|\bthereupon\b|\bhitherto\b": "plain words",
    r"\bwhoever\b": "a program that, if you",
    r"\bmany a\b": "many",
    r"\bin vain\b": "without success",
    r"\bneed be\b": "necessary",
    r"\bhas all of it\b": "lists everything",
    r"\bput aside\b|\bput beside\b": "moved to",
}
OPENING = re.compile(r'^[rR]?"""(?:What|How|Where|Who|Which)\b')
ALLOWED: dict[str, tuple[str, ...]] = {
    "rollout/agents/users/model.py": ("somebody",),
    "rollout/environments/suites/miniwob/environment.py": ("is told", "are told"),
    "rollout/environments/web/prompts.py": ("somebody",),
    "rollout/environments/web/scoring/verdict.py": ("stands in",),
    "rollout/examples/web/tracker/views.py": ("somebody",),
    "rollout/scoring/judge.py": ("whoever",),
}
"""Phrases of texts that models are sent, and of a page, by the path of the file. Changing them would change runs."""
_FOUND = re.compile("|".join(f"(?P<p{number}>{pattern})" for number, pattern in enumerate(DIALECT)))
_ADVICE = list(DIALECT.values())


def prose_of_page(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a page with their numbers, without code."""
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            is_code = not is_code
        elif not is_code:
            yield number, re.sub(r"`[^`]*`", "``", line)


def prose_of_module(text: str) -> Iterator[tuple[int, str]]:
    """Docstrings, comments and other texts that hold words, with the numbers of their lines."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_text = token.type == tokenize.STRING and " " in token.string
        if is_text or token.type in (tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.COMMENT)):
            for offset, line in enumerate(token.string.splitlines()):
                yield token.start[0] + offset, re.sub(r"`[^`]*`", "``", line)


def faults(root: Path = ROOT) -> Iterator[str]:
    """Each phrase of the dialect, as `file:line: phrase: advice`."""
    pages = [(path, prose_of_page) for pattern in PAGES for path in sorted(root.glob(pattern))]
    modules = [(path, prose_of_module) for path in sorted(root.glob(CODE))]
    for path, read in [*pages, *modules]:
        name = path.relative_to(root).as_posix()
        if name.startswith(SHIPPED_DATA):
            continue
        for number, line in read(path.read_text(encoding="utf-8")):
            for found in _FOUND.finditer(line):
                if found[0] not in ALLOWED.get(name, ()):
                    yield f"{name}:{number}: {found[0]!r}: write {_ADVICE[int(str(found.lastgroup)[1:])]}"
            if number == 1 and read is prose_of_module and OPENING.match(line):
                yield f"{name}:1: begins with {line.split()[0][3:]!r}: say what the module is for"


def main() -> None:
    found = list(faults())
    sys.stdout.write("\n".join([*found, f"{len(found)} places"]) + "\n")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
