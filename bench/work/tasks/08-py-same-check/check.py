from pathlib import Path

import users

text = Path("users.py").read_text()
assert text.count("too long") == 1, "the checks are still there twice"
known = {}
assert users.create_user(known, "ann") == {"active": True}
assert users.rename_user(known, "ann", "bob") == {"active": True}
assert known == {"bob": {"active": True}}
users.check_name("x" * 20)
for wrong in ("", "x" * 21, "a b"):
    for call in (
        lambda: users.check_name(wrong),
        lambda: users.create_user(known, wrong),
        lambda: users.rename_user(known, "bob", wrong),
    ):
        try:
            call()
        except ValueError:
            continue
        raise AssertionError(wrong)
assert known == {"bob": {"active": True}}
