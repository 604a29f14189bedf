"""A method and a task for tff_pers, found once the package is installed."""
