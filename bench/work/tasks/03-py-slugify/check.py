from slug import slugify

assert slugify("Hello, World!") == "hello-world"
assert slugify("  a  ") == "a"
assert slugify("C3PO -- and R2D2") == "c3po-and-r2d2"
assert slugify("a_b") == "a-b"
assert slugify("!!!") == ""
assert slugify("") == ""
