import datetime


def lies_datum(text):
    """Liest ein Datum der Form TT.MM.JJJJ."""
    tag, monat, jahr = text.strip().split(".")
    return datetime.date(int(jahr), int(monat), int(tag))
