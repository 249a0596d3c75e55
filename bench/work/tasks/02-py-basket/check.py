from basket import add_item

assert add_item("a") == ["a"]
assert add_item("b") == ["b"]
mine = []
assert add_item("c", mine) is mine
assert mine == ["c"]
assert add_item("d", mine) == ["c", "d"]
