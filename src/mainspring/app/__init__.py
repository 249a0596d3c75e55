"""The application: settings, building sessions and goals, and the operations that every face calls."""
