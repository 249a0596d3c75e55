def create_user(users, name):
    if not name:
        raise ValueError("a name is needed")
    if len(name) > 20:
        raise ValueError("the name is too long")
    if " " in name:
        raise ValueError("a name has no spaces")
    users[name] = {"active": True}
    return users[name]


def rename_user(users, old, new):
    if not new:
        raise ValueError("a name is needed")
    if len(new) > 20:
        raise ValueError("the name is too long")
    if " " in new:
        raise ValueError("a name has no spaces")
    users[new] = users.pop(old)
    return users[new]
