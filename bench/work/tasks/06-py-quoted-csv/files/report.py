def total(path):
    """The sum of amount times price over all lines but the first, which is the header."""
    result = 0.0
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    for line in lines[1:]:
        name, amount, price = line.split(",")
        result += int(amount) * float(price)
    return round(result, 2)
