def check_name(name):
    if not name:
        raise ValueError("a name is needed")
    if len(name) > 20:
        raise ValueError("the name is too long")
    if " " in name:
        raise ValueError("a name has no spaces")


def create_user(users, name):
    check_name(name)
    users[name] = {"active": True}
    return users[name]


def rename_user(users, old, new):
    check_name(new)
    users[new] = users.pop(old)
    return users[new]
