import argparse


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--upper", action="store_true")
    options = parser.parse_args()
    greeting = f"Hello, {options.name}!"
    print(greeting.upper() if options.upper else greeting)


if __name__ == "__main__":
    main()
