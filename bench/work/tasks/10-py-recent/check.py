from recent import RecentCache

cache = RecentCache(2)
cache.put("a", 1)
cache.put("b", 2)
assert cache.get("a") == 1
cache.put("c", 3)
assert cache.get("b") is None
assert cache.get("a") == 1 and cache.get("c") == 3
cache.put("a", 9)
cache.put("d", 4)
assert cache.get("a") == 9 and cache.get("c") is None
assert len(cache) == 2
one = RecentCache(1)
one.put("x", 0)
one.put("x", 5)
assert one.get("x") == 5 and len(one) == 1
