from pathlib import Path

from report import total

assert total("orders.csv") == 10.0
Path("other.csv").write_text('name,amount,price\n"A ""x"" B, C",2,0.5\nD,1,0.25\n')
assert total("other.csv") == 1.25
Path("empty.csv").write_text("name,amount,price\n")
assert total("empty.csv") == 0.0
