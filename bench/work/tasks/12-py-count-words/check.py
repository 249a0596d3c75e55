from words import count_words

assert dict(count_words("The cat. The dog!")) == {"the": 2, "cat": 1, "dog": 1}
assert dict(count_words("a ... A, ?b;")) == {"a": 2, "b": 1}
assert dict(count_words("it's it's\nit")) == {"it's": 2, "it": 1}
assert dict(count_words("")) == {}
