import subprocess
import sys


def greet(*words):
    done = subprocess.run([sys.executable, "greet.py", *words], capture_output=True, text=True, check=True)
    return done.stdout


assert greet("Ann") == "Hello, Ann!\n"
assert greet("Ann", "--upper") == "HELLO, ANN!\n"
assert greet("--upper", "bob") == "HELLO, BOB!\n"
