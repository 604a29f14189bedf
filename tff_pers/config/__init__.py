"""What can be chosen: hyperparameters, methods, settings, search spaces."""
