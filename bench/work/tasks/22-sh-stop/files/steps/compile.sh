echo compiled
