import re


def slugify(title):
    return re.sub("[^a-z0-9]+", "-", title.lower()).strip("-")
