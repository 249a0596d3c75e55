import argparse


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    options = parser.parse_args()
    print(f"Hello, {options.name}!")


if __name__ == "__main__":
    main()
