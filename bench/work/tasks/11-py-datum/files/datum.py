import datetime


def lies_datum(text):
    """Liest ein Datum der Form TT.MM.JJJJ."""
    monat, tag, jahr = text.strip().split(".")
    return datetime.date(int(jahr), int(monat), int(tag))
