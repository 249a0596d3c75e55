from temperature import to_celsius, to_fahrenheit

assert abs(to_celsius(212) - 100) < 1e-9
assert abs(to_celsius(32)) < 1e-9
assert abs(to_celsius(-40) + 40) < 1e-9
assert abs(to_fahrenheit(100) - 212) < 1e-9
