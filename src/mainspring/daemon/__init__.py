"""One background process per data folder: begins what is scheduled, and goes on with what was interrupted."""
