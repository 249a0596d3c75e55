from items import last_items

assert last_items([1, 2, 3, 4], 2) == [3, 4]
assert last_items([1, 2, 3], 1) == [3]
assert last_items([1, 2, 3], 3) == [1, 2, 3]
