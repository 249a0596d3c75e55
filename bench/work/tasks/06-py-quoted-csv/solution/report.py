import csv


def total(path):
    """The sum of amount times price over all lines but the first, which is the header."""
    result = 0.0
    with open(path, encoding="utf-8", newline="") as file:
        for name, amount, price in list(csv.reader(file))[1:]:
            result += int(amount) * float(price)
    return round(result, 2)
