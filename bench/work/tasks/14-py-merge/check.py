import copy

from config import merge

base = {"a": {"b": {"c": 1, "d": 2}}, "x": 1, "y": {"z": 1}}
extra = {"a": {"b": {"c": 5}, "e": 6}, "x": {"n": 1}, "y": 3}
kept = copy.deepcopy((base, extra))
assert merge(base, extra) == {"a": {"b": {"c": 5, "d": 2}, "e": 6}, "x": {"n": 1}, "y": 3}
assert (base, extra) == kept
assert merge({}, {"a": 1}) == {"a": 1}
assert merge({"a": 1}, {}) == {"a": 1}
