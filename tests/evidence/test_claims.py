"""Claims: only a check that ran closes one, and refuting one takes what stands on it."""

import asyncio
import hashlib
import os
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mainspring.events import Blob, Claim, ClaimChecked, ClaimsRead, ClaimStatus
from mainspring.evidence.claim_checks import CheckLimits, check_claims, named_files
from mainspring.evidence.claim_file import DEFAULT_PATH, EXAMPLE, parse_claims, read_claims
from mainspring.evidence.claims import Claims, cycles
from mainspring.sandbox.files import Files
from mainspring.sandbox.policy import policy
from mainspring.sandbox.rungs.process import PlainSandbox


class Proof:
    """A workspace with a file of claims, whose checks run in real processes."""

    def __init__(self, folder: Path) -> None:
        self.root = folder.resolve()
        self.files = Files(policy(self.root, home=folder / "home"))
        self.claims = Claims()
        self.blobs: dict[str, bytes] = {}

    async def keep(self, data: bytes, media_type: str) -> Blob:
        blob = Blob(sha256=hashlib.sha256(data).hexdigest(), size=len(data), media_type=media_type)
        self.blobs[blob.sha256] = data
        return blob

    def write(self, *tables: str) -> None:
        (self.root / "projects").mkdir(exist_ok=True)
        (self.root / DEFAULT_PATH).write_text("\n".join(f"[[claim]]\n{table}\n" for table in tables))
        self.claims.apply(read_claims(self.files, DEFAULT_PATH, 1))

    def check(self, bounds: CheckLimits | None = None, *, is_everything: bool = False) -> list[ClaimChecked]:
        events: list[ClaimChecked] = []

        async def record(event: ClaimChecked) -> None:
            events.append(event)

        async def scenario() -> None:
            sandbox = PlainSandbox(environment=dict(os.environ))
            try:
                await check_claims(
                    self.claims,
                    iteration=1,
                    sandbox=sandbox,
                    files=self.files,
                    keep=self.keep,
                    record=record,
                    bounds=bounds or CheckLimits(check_s=20),
                    is_everything=is_everything,
                )
            finally:
                await sandbox.close()

        asyncio.run(scenario())
        return events

    def checked(self) -> list[tuple[str, str]]:
        return [(event.claim, event.status) for event in self.check()]


@pytest.fixture
def proof(tmp_path: Path) -> Proof:
    return Proof(tmp_path)


MAIN = 'name="main"\nstatement="m"\ndepends_on=["lemma"]\ncheck="test 1"\ngoal=true'


@pytest.mark.parametrize(
    ("check", "status", "detail"),
    [
        ("test 1", "proved", "exit code 0"),
        ("test 1 && echo fine", "proved", "exit code 0: fine"),
        ("echo REFUTED; echo x = 3 >&2; exit 1", "refuted", "exit code 1: x = 3"),
        ("test 1 && echo REFUTED", "open", "it says REFUTED and exits with 0"),
        ("echo it is REFUTED; exit 1", "open", "exit code 1: it is REFUTED"),
        ("echo REFUTED >&2; exit 1", "open", "exit code 1: REFUTED"),
        ("exit 2", "open", "exit code 2"),
        ("no-such-prover", "open", "exit code 127"),
        ("kill -9 $$", "open", "exit code 137"),
        ("sleep 100", "open", "timed out after"),
    ],
)
def test_only_a_check_that_ran_decides(proof: Proof, check: str, status: str, detail: str) -> None:
    proof.write(f"name='main'\nstatement='m'\ngoal=true\ncheck='{check}'")
    (event,) = proof.check(CheckLimits(check_s=0.5 if "sleep" in check else 20))
    assert event.status == status
    assert event.detail.startswith(detail)
    assert (proof.claims.missing() == ()) is (status == "proved")
    if "echo" in check:
        assert event.output is not None


def test_the_example_is_read_without_problems() -> None:
    claims, problems = parse_claims(EXAMPLE.encode())
    assert problems == ()
    assert [(claim.name, claim.is_goal, claim.depends_on) for claim in claims] == [
        ("main", True, ("lemma",)),
        ("lemma", False, ()),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[[claim]\n", "the file is not TOML"),
        ("", "no claim is written down"),
        ("claim = 3", "no claim is written down"),
        ("claim = [3]", "claim 1 is not a table"),
        ('[[claim]]\nstatement = "x"', "a claim has no name (x)"),
        ('[[claim]]\nname = "a"', "a has no statement"),
        ('[[claim]]\nname = "a"\nstatus = "proved"', "a is called proved; only a check that ran proves"),
        ('[[claim]]\nname = "a"\nstatus = "sure"', "a has the unknown status sure"),
        ('[[claim]]\nname = "a"\n[[claim]]\nname = "a"', "a is written twice"),
        ('[[claim]]\nname = "a"\ndepends_on = ["b"]', "a stands on b, which is not there"),
        ('[[claim]]\nname = "a"\ndepends_on = "a"', "a → a is a circle"),
        ('[[claim]]\nname = "a"\ndepends_on = [1]', "depends_on of a is not a list of names"),
        ('[[claim]]\nname = "a"\ncheck = ["x"]', "check of a is not text"),
    ],
)
def test_problems_are_listed(text: str, problem: str) -> None:
    _, problems = parse_claims(text.encode())
    assert any(found.startswith(problem) for found in problems), problems


@pytest.mark.parametrize("data", [b"\xff\xfe", b"x" * 1_000_001])
def test_a_file_that_is_no_text_or_too_large_is_a_problem(data: bytes) -> None:
    claims, problems = parse_claims(data)
    assert claims == ()
    assert len(problems) == 1


def test_named_tables_and_one_name_are_read_too() -> None:
    claims, _ = parse_claims(b'[claims.a]\nstatement = "x"\ndepends_on = "b"\n[claims.b]\nstatement = "y"')
    assert [(claim.name, claim.depends_on) for claim in claims] == [("a", ("b",)), ("b", ())]


@given(st.binary(max_size=80), st.text(max_size=80))
def test_any_file_gives_claims_that_can_be_kept_or_says_what_is_wrong(data: bytes, text: str) -> None:
    for file in (data, f"[[claim]]\n{text}".encode()):
        claims, problems = parse_claims(file)
        assert claims or problems
        assert len({claim.name for claim in claims}) == len(claims)
        assert all(claim.name and claim.status in get_args(ClaimStatus) for claim in claims)


def test_an_agent_cannot_write_proved(proof: Proof) -> None:
    proof.write('name="main"\nstatement="m"\ngoal=true\nstatus="proved"')
    assert proof.check() == []
    assert proof.claims.missing() == ("main has no check",)


def test_a_file_that_broke_keeps_the_claims_and_blocks(proof: Proof) -> None:
    proof.write('name="main"\nstatement="m"\ngoal=true\ncheck="test 1"')
    proof.check()
    assert proof.claims.missing() == ()
    (proof.root / DEFAULT_PATH).write_text("[[claim]\n")
    proof.claims.apply(read_claims(proof.files, DEFAULT_PATH, 2))
    assert proof.claims.status("main") == "proved"
    assert "not TOML" in proof.claims.missing()[0]
    (proof.root / DEFAULT_PATH).unlink()
    proof.claims.apply(read_claims(proof.files, DEFAULT_PATH, 2))
    assert proof.claims.missing() == (f"{DEFAULT_PATH} is not there",)


def test_an_assumption_is_not_closed(proof: Proof) -> None:
    proof.write(MAIN, 'name="lemma"\nstatement="l"\nstatus="assumed"')
    assert proof.checked() == [("main", "proved")]
    assert proof.claims.missing() == ("lemma is assumed, not proved",)


def test_what_is_not_on_the_path_does_not_matter(proof: Proof) -> None:
    proof.write(
        MAIN, 'name="lemma"\nstatement="l"\ncheck="test 1"', 'name="aside"\nstatement="a"\ncheck="false"'
    )
    proof.check()
    assert proof.claims.missing() == ()


def test_a_refuted_claim_reopens_what_stands_on_it_until_it_is_proved_again(proof: Proof) -> None:
    (proof.root / "l.sh").write_text("test 1 = 1")
    lemma = 'name="lemma"\nstatement="l"\ncheck="sh l.sh"'
    other = 'name="other"\nstatement="o"\ncheck="test 1"'
    proof.write(MAIN, lemma, other)
    assert proof.checked() == [("lemma", "proved"), ("main", "proved"), ("other", "proved")]
    assert proof.checked() == []
    (proof.root / "l.sh").write_text("echo REFUTED; exit 1")
    assert proof.checked() == [("lemma", "refuted"), ("main", "open")]
    assert proof.claims.missing() == (
        "lemma is refuted",
        "main is open: it stands on lemma, which is refuted",
    )
    assert proof.claims.status("other") == "proved"
    assert proof.checked() == []
    (proof.root / "l.sh").write_text("test 1 = 1 # now")
    assert proof.checked() == [("lemma", "proved"), ("main", "proved")]
    assert proof.claims.missing() == ()


def test_a_refutation_written_by_the_agent_reopens_too(proof: Proof) -> None:
    lemma = 'name="lemma"\nstatement="l"\ncheck="test 1"'
    proof.write(MAIN, lemma)
    proof.check()
    proof.write(MAIN, f'{lemma}\nstatus="refuted"')
    assert (proof.claims.status("lemma"), proof.claims.status("main")) == ("refuted", "open")
    assert proof.checked() == []
    proof.write(MAIN, lemma)
    assert proof.claims.status("main") == "open"
    assert proof.checked() == [("main", "proved")]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace('statement="l"', 'statement="l, and more"'),
        lambda text: text.replace('check="sh l.sh"', 'check="sh l.sh again"'),
    ],
)
def test_a_changed_claim_must_be_checked_again(proof: Proof, change) -> None:
    (proof.root / "l.sh").write_text("test 1 = 1")
    lemma = 'name="lemma"\nstatement="l"\ncheck="sh l.sh"'
    proof.write(MAIN, lemma)
    proof.check()
    proof.write(MAIN, change(lemma))
    assert proof.claims.status("lemma") == "open"
    assert ("lemma", "proved") in proof.checked()


def test_a_changed_file_of_a_check_makes_it_run_again(proof: Proof) -> None:
    (proof.root / "l.sh").write_text("test 1 = 1")
    proof.write(MAIN, 'name="lemma"\nstatement="l"\ncheck="sh l.sh"')
    proof.check()
    (proof.root / "l.sh").write_text("exit 1")
    assert proof.checked() == [("lemma", "open")]
    assert proof.claims.missing() == ("lemma is open: exit code 1",)


def test_everything_can_be_checked_again_before_the_end(proof: Proof) -> None:
    (proof.root / "unnamed").write_text("x")
    proof.write(MAIN, 'name="lemma"\nstatement="l"\ncheck="bash -c \'test -e unnam*\'"')
    proof.check()
    (proof.root / "unnamed").unlink()
    assert proof.check() == []
    assert [event.status for event in proof.check(is_everything=True)] == ["open", "proved"]


def test_without_time_nothing_is_proved(proof: Proof) -> None:
    proof.write(MAIN, 'name="lemma"\nstatement="l"\ncheck="test 1"')
    proof.check()
    events = proof.check(CheckLimits(all_s=0), is_everything=True)
    assert {event.status for event in events} == {"open"}
    assert len(proof.claims.missing()) == 2


def test_a_check_that_changes_its_own_files_proves_nothing(proof: Proof) -> None:
    (proof.root / "l.sh").write_text("echo >> l.sh")
    proof.write('name="main"\nstatement="m"\ngoal=true\ncheck="sh l.sh"')
    assert proof.checked() == [("main", "open")]


def test_files_that_a_check_names_are_found(proof: Proof) -> None:
    for name in ("a.py", "pkg/check.py", "sub/b.lean", "data=1", "c.txt"):
        (proof.root / name).parent.mkdir(exist_ok=True)
        (proof.root / name).write_text("x")
    found = named_files(
        "python a.py --data=c.txt; python -m pkg.check && (cd sub && lean b.lean) < 'data=1' # z", proof.files
    )
    assert set(found) == {"a.py", "c.txt", "pkg/check.py", "sub/b.lean", "data=1"}
    assert named_files("unclosed 'quote a.py", proof.files) == ("a.py",)
    assert named_files("\0 " + "x" * 5000, proof.files) == ()


NAMES = ["a", "b", "c", "d", "e", "f"]


def claim(name: str) -> st.SearchStrategy[Claim]:
    """Claims that mostly stand on later ones, so that goals can be proved and circles happen."""
    later = NAMES[NAMES.index(name) + 1 :]
    few = st.lists(st.sampled_from(later), unique=True, max_size=2) if later else st.just([])
    anywhere = st.lists(st.sampled_from(NAMES), unique=True, max_size=2)
    return st.builds(
        Claim,
        name=st.just(name),
        statement=st.sampled_from(["x", "x", "y"]),
        depends_on=st.one_of(few, few, few, anywhere).map(tuple),
        check=st.sampled_from(["true", "true", "true", ""]),
        status=st.sampled_from(["open", "open", "open", "open", "assumed", "refuted"]),
        is_goal=st.booleans(),
        note=st.just(""),
    )


def graphs() -> st.SearchStrategy[ClaimsRead]:
    some = st.lists(st.sampled_from(NAMES), unique=True, min_size=1)
    picked = some.flatmap(lambda names: st.tuples(*(claim(name) for name in names)))
    return picked.map(lambda claims: ClaimsRead(iteration=1, claims=claims))


def checks(status: ClaimStatus | None = None) -> st.SearchStrategy[ClaimChecked]:
    statuses = (
        st.just(status) if status else st.sampled_from(["proved", "proved", "proved", "refuted", "open"])
    )
    return st.builds(
        lambda claim, status: ClaimChecked(
            iteration=1, claim=claim, status=status, exit_code=0 if status == "proved" else 1
        ),
        st.sampled_from(NAMES),
        statuses,
    )


def reach(claims: dict[str, Claim], start: str) -> set[str]:
    """All that a claim stands on, directly or not, written another way than in the fold."""
    found: set[str] = set()
    while True:
        bases = {start} | found
        more = {below for name in bases if name in claims for below in claims[name].depends_on}
        if more <= found:
            return found
        found |= more


def is_shown(history: list[ClaimsRead | ClaimChecked]) -> bool:
    """Whether the newest goal is proved, from the whole history at once: each claim on the path has a check
    that passed after the last change to it and after the last refutation of what it stands on."""
    reads = [number for number, event in enumerate(history) if isinstance(event, ClaimsRead)]
    newest = history[reads[-1]]
    assert isinstance(newest, ClaimsRead)
    claims = {claim.name: claim for claim in newest.claims}
    path = {name for name, claim in claims.items() if claim.is_goal}
    if not path:
        return False
    path |= {below for name in path for below in reach(claims, name)}
    if not path <= claims.keys() or any(name in reach(claims, name) for name in path):
        return False
    for name in path:
        passed = [
            number
            for number, event in enumerate(history)
            if isinstance(event, ClaimChecked) and event.claim == name and event.status == "proved"
        ]
        if not passed or claims[name].status == "refuted":
            return False
        for event in history[passed[-1] + 1 :]:
            is_hit = isinstance(event, ClaimChecked) and (
                (event.claim == name) or (event.status == "refuted" and event.claim in reach(claims, name))
            )
            if is_hit:
                return False
    return True


def provable(graph: ClaimsRead) -> ClaimsRead:
    """The same graph, in which nothing but checks decides."""
    claims = tuple(replace(claim, check="test 1", status="open") for claim in graph.claims)
    return replace(graph, claims=claims)


def proved(graph: ClaimsRead) -> list[ClaimChecked]:
    return [
        ClaimChecked(iteration=1, claim=claim.name, status="proved", exit_code=0) for claim in graph.claims
    ]


@given(graphs().map(provable), st.lists(checks(), max_size=6))
def test_done_is_accepted_exactly_when_every_claim_on_the_path_is_closed(
    graph: ClaimsRead, history: list[ClaimChecked]
) -> None:
    claims = Claims()
    told = [graph, *proved(graph), *history]
    for event in told:
        claims.apply(event)
    assert (claims.missing() == ()) is is_shown(told)


@given(graphs(), graphs(), st.lists(checks(), max_size=6), st.lists(checks("proved"), max_size=6))
def test_done_is_never_accepted_with_an_open_claim_on_the_path(
    first: ClaimsRead, second: ClaimsRead, before: list[ClaimChecked], after: list[ClaimChecked]
) -> None:
    claims = Claims()
    told = [first, *proved(first), *before, second, *after]
    for event in told:
        claims.apply(event)
    if claims.missing() == ():
        assert is_shown(told)
        assert all(claims.status(name) == "proved" for name in claims.path())


@given(graphs(), st.sampled_from(NAMES))
def test_refuting_reopens_exactly_the_dependents(graph: ClaimsRead, name: str) -> None:
    graph = provable(graph)
    claims = Claims()
    claims.apply(graph)
    for event in proved(graph):
        claims.apply(event)
    assert all(claims.status(known) == "proved" for known in claims.all)
    claims.apply(ClaimChecked(iteration=2, claim=name, status="refuted", exit_code=1))
    written = dict(claims.all)
    expected = {known for known in written if known != name and name in reach(written, known)}
    reopened = {known for known in written if known != name and claims.status(known) != "proved"}
    assert reopened == (expected if name in written else set())
    assert set(claims.dependents(name)) == expected


@given(graphs())
def test_circles_are_found(graph: ClaimsRead) -> None:
    written = {claim.name: claim for claim in graph.claims}
    assert bool(cycles(written)) == any(name in reach(written, name) for name in written)


def test_a_proof_without_its_exit_code_is_none() -> None:
    claims = Claims()
    claims.apply(
        ClaimsRead(iteration=1, claims=(Claim(name="a", statement="x", check="test 1", is_goal=True),))
    )
    claims.apply(ClaimChecked(iteration=1, claim="a", status="proved"))
    assert claims.status("a") == "open"


def test_telling_the_fold_twice_changes_nothing(proof: Proof) -> None:
    proof.write(MAIN, 'name="lemma"\nstatement="l"\ncheck="echo REFUTED; exit 1"')
    events = proof.check()
    before = {name: proof.claims.status(name) for name in proof.claims.all}
    for event in events:
        proof.claims.apply(event)
    assert {name: proof.claims.status(name) for name in proof.claims.all} == before


def test_what_was_proved_before_a_refutation_must_be_proved_after_it() -> None:
    claims = Claims()
    lemma = Claim(name="lemma", statement="l", check="test 1")
    main = Claim(name="main", statement="m", check="test 1", depends_on=("lemma",), is_goal=True)

    def told(name: str, status: ClaimStatus) -> None:
        exit_code = 0 if status == "proved" else 1
        claims.apply(ClaimChecked(iteration=1, claim=name, status=status, exit_code=exit_code))

    claims.apply(ClaimsRead(iteration=1, claims=(main, lemma)))
    told("lemma", "proved")
    told("main", "proved")
    told("lemma", "refuted")
    told("lemma", "proved")
    assert claims.missing() == ("main is open: its check has not run",)
    told("lemma", "refuted")
    told("main", "proved")
    assert claims.status("main") == "open"


def test_a_check_that_proves_a_wrong_statement_as_well_proves_nothing(proof: Proof) -> None:
    claim = 'name="main"\nstatement="2 + 2 = 4"\ngoal=true\ncheck="sh c.sh"'
    (proof.root / "c.sh").write_text('test -n "$CLAIM"')
    proof.write(claim)
    assert proof.checked() == [("main", "open")]
    (proof.root / "c.sh").write_text('test "$CLAIM" = "2 + 2 = 4"')
    assert proof.checked() == [("main", "proved")]
