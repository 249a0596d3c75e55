def slugify(title):
    raise NotImplementedError
