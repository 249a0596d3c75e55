from roman import from_roman, to_roman

for number in range(1, 4000):
    assert from_roman(to_roman(number)) == number, number
assert to_roman(1) == "I"
assert to_roman(3999) == "MMMCMXCIX"
assert to_roman(944) == "CMXLIV"
assert from_roman("mcmxc") == 1990
for wrong in (0, -1, 4000):
    try:
        to_roman(wrong)
    except ValueError:
        continue
    raise AssertionError(wrong)
