def merge(base, extra):
    """The settings of `base`, overridden by those of `extra`."""
    base.update(extra)
    return base
