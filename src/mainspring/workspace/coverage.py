"""Which lines of a project its tests ran: a command is wrapped so that coverage.py and node measure it, and
what they say is read from behind a mark at the end of its output.

Pure. The tests run once: the wrapper sets the environment by which both start by themselves (coverage.py
since 7.13, and that of the project's own `--cov`), in a folder of the sandbox, and prints a summary. Of a
runner that neither can measure, nothing is known, and that is said.
"""

from __future__ import annotations

import ast
import secrets
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from mainspring.patterns import lazy_pattern

BY = "coverage"
"""The name of the check."""
_MAX_FILES = 5_000
_TOO_LONG = "the output of the tests was too long to hold what they measured"
_NOT_READ = "what was measured cannot be read"
_NOTHING = "neither coverage.py (7.13 or newer) nor node measured `{command}`"
_PYTHON_FILE = lazy_pattern(r".*\.pyi?")

_RC = """[run]
parallel = true
include = $PWD/*
omit =
  */site-packages/*
  */.venv/*
  */node_modules/*
disable_warnings = no-data-collected,module-not-measured,module-not-imported,no-sysmon,include-ignored
[report]
exclude_also =
  if TYPE_CHECKING:
  raise NotImplementedError
  @(abc\\.)?abstractmethod
  ^\\s*\\.\\.\\.$"""

_OF_PYTHON = """
import glob, json, os, sys
import coverage
base, root = sys.argv[1], os.getcwd() + os.sep
lines = {}
for name in glob.glob(base + "*"):
    data = coverage.CoverageData(name)
    try:
        data.read()
    except coverage.CoverageException:
        continue
    for path in data.measured_files():
        lines.setdefault(os.path.abspath(path), set()).update(data.lines(path) or ())
whole = coverage.Coverage(data_file=None, config_file=sys.argv[2])
whole.get_data().add_lines(lines)
def ranges(numbers):
    found = []
    for each in sorted(numbers):
        if found and found[-1][1] == each - 1:
            found[-1][1] = each
        else:
            found.append([each, each])
    return found
files = {}
for path in sorted(lines):
    if path.startswith(root):
        try:
            _, statements, _, missing, _ = whole.analysis2(path)
        except coverage.CoverageException:
            continue
        files[path[len(root):]] = {"reached": ranges({*statements} - {*missing}), "missing": ranges(missing)}
print(json.dumps({"by": "coverage.py " + coverage.__version__, "files": files}))
"""

_OF_NODE = r"""
const fs = require('fs'), { fileURLToPath } = require('url')
const [folder] = process.argv.slice(1), root = process.cwd() + '/', lines = {}
for (const name of fs.readdirSync(folder)) {
  let result
  try { result = JSON.parse(fs.readFileSync(folder + '/' + name, 'utf8')).result } catch { continue }
  for (const script of result) {
    if (!script.url.startsWith('file://')) continue
    const path = fileURLToPath(script.url)
    if (!path.startsWith(root) || path.includes('/node_modules/')) continue
    let text
    try { text = fs.readFileSync(path, 'utf8') } catch { continue }
    const ran = new Uint8Array(text.length).fill(1)
    const ranges = script.functions.flatMap(each => each.ranges)
    ranges.sort((a, b) => a.startOffset - b.startOffset || b.endOffset - a.endOffset)
    for (const each of ranges) ran.fill(each.count ? 1 : 0, each.startOffset, each.endOffset)
    const known = lines[path.slice(root.length)] ??= {}
    let offset = 0
    text.split('\n').forEach((line, index) => {
      const isCode = line.trim() && !/^\s*(?:\/\/|\/?\*|[{}()[\];,\s]*$)/.test(line)
      const isRun = [...Array(line.length).keys()].some(at => line[at].trim() && ran[offset + at])
      if (isCode) known[index + 1] ||= isRun
      offset += line.length + 1
    })
  }
}
const ranges = (known, wanted) => Object.keys(known).filter(each => known[each] === wanted).map(Number)
  .reduce((found, each) => {
    const last = found[found.length - 1]
    if (last && last[1] === each - 1) last[1] = each
    else found.push([each, each])
    return found
  }, [])
const files = {}
for (const path of Object.keys(lines).sort())
  files[path] = { reached: ranges(lines[path], true), missing: ranges(lines[path], false) }
if (Object.keys(files).length) console.log(JSON.stringify({ by: 'node ' + process.version, files }))
"""

_WRAPPER = """
folder=$(mktemp -d) || exec bash -c "$1"
printf '%s' "$4" | sed "s|\\$PWD|$PWD|" > "$folder/rc"
export COVERAGE_FILE="$folder/data" COVERAGE_PROCESS_START="$folder/rc" NODE_V8_COVERAGE="$folder/v8"
bash -c "$1"
code=$?
unset COVERAGE_FILE COVERAGE_PROCESS_START NODE_V8_COVERAGE
printf '\\n%s\\n' "$2"
if [ -n "$(ls "$folder" | grep '^data')" ]; then
  of_pytest=$(sed -n '1s/^#!//p' "$(command -v pytest)" 2>/dev/null)
  for python in ${1%% *} .venv/bin/python venv/bin/python $of_pytest python3 python; do
    case ${python##*/} in python*) "$python" -c "$3" "$folder/data" "$folder/rc" 2>/dev/null && break;; esac
  done
fi
[ -d "$folder/v8" ] && node -e "$5" "$folder/v8" 2>/dev/null
rm -rf "$folder"
exit $code
"""

Range = tuple[int, int]


class FileCoverage(msgspec.Struct, frozen=True):
    """The lines of a file that can run, as ranges with both ends: those that tests ran, and the others."""

    reached: tuple[Range, ...] = ()
    missing: tuple[Range, ...] = ()


class Coverage(msgspec.Struct, frozen=True):
    """What one run of tests reached, by whom it was measured, and by file."""

    by: str = ""
    files: dict[str, FileCoverage] = {}

    @property
    def reached(self) -> int:
        return sum(count(each.reached) for each in self.files.values())

    @property
    def lines(self) -> int:
        return self.reached + sum(count(each.missing) for each in self.files.values())


def measured(command: str) -> tuple[tuple[str, ...], str]:
    """The words that run a command and print what it reached, and the mark before that."""
    mark = f"coverage-{secrets.token_hex(8)}"
    return ("bash", "-c", _WRAPPER, "tests", command, mark, _OF_PYTHON, _RC, _OF_NODE), mark


def read_measured(output: str, mark: str, command: str) -> tuple[str, Coverage | str]:
    """The output of the command itself, and what it reached; why that is not known, otherwise. Without a mark
    it was not to be measured."""
    if not mark:
        return output, ""
    said, found, report = output.rpartition(f"\n{mark}\n")
    if not found:
        return output, _TOO_LONG
    try:
        reports = [msgspec.json.decode(line, type=Coverage) for line in report.splitlines() if line.strip()]
    except (msgspec.DecodeError, RecursionError):
        return said, _NOT_READ
    files = {path: each for one in reports for path, each in one.files.items()}
    if not files:
        return said, _NOTHING.format(command=command)
    by = ", ".join(dict.fromkeys(one.by for one in reports))
    return said, Coverage(by, dict(sorted(files.items())[:_MAX_FILES]))


def untested_of(path: str, text: str, coverage: Coverage, changed: Iterable[int]) -> list[Range]:
    """Ranges of the changed lines of a file that no test ran, without lines that cannot run. A Python file
    that no test even imports has none that ran; of others that were not measured nothing is known."""
    known = coverage.files.get(path)
    if not _PYTHON_FILE.fullmatch(path):
        return ranges_of(numbers_of(known.missing).intersection(changed)) if known else []
    if known is None and "coverage.py" not in coverage.by:
        return []
    first_lines = _statements(text)
    missing = numbers_of(known.missing) if known else {*first_lines.values()}
    return ranges_of(line for line in changed if first_lines.get(line) in missing)


def _statements(text: str) -> dict[int, int]:
    """For each line of Python that belongs to a statement the line on which that begins; texts that stand for
    themselves, such as docstrings, are left out, and so are names that are only declared."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found: dict[int, int] = {}
    for node in ast.walk(tree):  # what is inside comes after what holds it
        if not isinstance(node, ast.stmt) or isinstance(node, ast.Global | ast.Nonlocal):
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        body: list[ast.stmt] = getattr(node, "body", [])
        last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
        found |= dict.fromkeys(range(node.lineno, max(last, node.lineno) + 1), node.lineno)
    return found


def lost(before: Coverage, now: Coverage, changed: Mapping[str, object]) -> dict[str, list[Range]]:
    """Lines of unchanged files that tests ran before and no longer run."""
    found: dict[str, list[Range]] = {}
    for path, was in before.files.items():
        if path not in changed:
            gone = numbers_of(was.reached) - (
                numbers_of(now.files[path].reached) if path in now.files else set()
            )
            if gone:
                found[path] = ranges_of(gone)
    return found


def numbers_of(ranges: Sequence[Range]) -> set[int]:
    return {number for first, last in ranges for number in range(first, last + 1)}


def ranges_of(numbers: Iterable[int]) -> list[Range]:
    found: list[Range] = []
    for each in sorted(numbers):
        if found and found[-1][1] == each - 1:
            found[-1] = found[-1][0], each
        else:
            found.append((each, each))
    return found


def count(ranges: Sequence[Range]) -> int:
    return sum(last - first + 1 for first, last in ranges)
