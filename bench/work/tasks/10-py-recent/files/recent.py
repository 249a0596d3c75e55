class RecentCache:
    pass
