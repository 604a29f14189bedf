"""A method and a task for tff_pers; installing the package is all they need."""
