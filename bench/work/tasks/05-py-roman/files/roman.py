def to_roman(number):
    raise NotImplementedError


def from_roman(text):
    raise NotImplementedError
