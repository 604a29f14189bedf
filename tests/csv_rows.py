"""CSV files as a user's program reads them."""

import csv


def read(path) -> list[dict[str, str]]:
  """Returns the rows of a CSV file, as texts."""
  with open(path, newline='', encoding='utf-8') as file:
    return list(csv.DictReader(file))
