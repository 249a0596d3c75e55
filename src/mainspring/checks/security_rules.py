"""What in a change may let others in: rules as queries of tree-sitter, one file a language in `security/`.

A query captures `@found`, and what must not be a constant (`@variable`), must be put together of parts
(`@composed`), or put together and SQL (`@sql`). What is a constant, and what makes a value harmless, is
decided where the tree is (`grammars`).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path, PurePosixPath

from mainspring.disk.untrusted import read_start

_MAX_BYTES = 256 * 1024
_FOLDER = Path(__file__).with_name("security")
_NAMED = "; rule: "
MESSAGES = {
    "shell-injection": "a shell runs text that is put together here: pass the values as arguments",
    "sql-injection": "SQL is put together from parts: pass the values as parameters",
    "eval": "text that is not constant is run as code",
    "unsafe-load": "what is read can run code: use `yaml.safe_load`",
    "unsafe-pickle": "unpickling runs what the data says: use it only for data of your own, or use JSON",
    "tls-unchecked": "the certificate of the other side is not checked",
    "markup-injection": "text goes into a page as markup: escape it, or set it as text",
    "unbounded-write": "more may be written than there is room for: use `fgets`, `snprintf` or a width",
    "format-string": 'text that is not constant is a format: use `"%s"`',
    "unchecked-download": "what is downloaded runs unseen: save it, check it, then run it",
}
_FILES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys((".py", ".pyi"), ("python",)),
    **dict.fromkeys((".js", ".mjs", ".cjs", ".jsx", ".tsx"), ("script", "jsx")),
    **dict.fromkeys((".ts", ".mts", ".cts"), ("script",)),
    **dict.fromkeys((".sh", ".bash"), ("bash",)),
    ".go": ("go",),
    **dict.fromkeys((".c", ".cc", ".cpp"), ("c",)),
}


def has_rules(path: str) -> bool:
    return PurePosixPath(path).suffix.lower() in _FILES


@cache
def rules_for(suffix: str) -> tuple[tuple[str, str], ...]:
    """The names of the rules for files whose names end so, each with its queries."""
    files = [_FOLDER / f"{name}.scm" for name in _FILES[suffix]]
    texts = [read_start(file, max_bytes=_MAX_BYTES).decode() for file in files]
    parts = [part.partition("\n") for text in texts for part in text.split(_NAMED)[1:]]
    return tuple((name.strip(), queries) for name, _, queries in parts)
