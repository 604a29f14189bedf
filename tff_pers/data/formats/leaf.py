"""Reads the JSON files of LEAF.

LEAF: A Benchmark for Federated Settings. Caldas, Duddu, Wu, Li, Konecny,
McMahan, Smith, Talwalkar. 2018.

A folder holds files `{"users": [...], "num_samples": [...], "user_data": {user:
{"x": [...], "y": [...]}}}`, each with different users.
"""

import glob
import json
import os
from typing import Any, Mapping, Optional

from tff_pers.data import errors
from tff_pers.data.formats import records


def read(
    folder: str,
    fields: Mapping[str, records.Field],
    names: Optional[Mapping[str, str]] = None,
) -> records.Records:
  """Returns the records of all .json files of a folder, e.g. data/train.

  The files are held in memory. `names` is `x` or `y` by name of the field;
  without it, the fields are x and y.

  Raises:
    errors.DataError: If there is no such file, or one is unreadable or in
      another form; names the user.
  """
  data = users(folder)
  sizes = {user: len(own['y']) for user, own in data.items()}
  names = names or {'x': 'x', 'y': 'y'}

  def read_client(user: str) -> dict[str, Any]:
    return {name: data[user][key] for name, key in names.items()}

  return records.make(folder, sizes, read_client, fields)


def users(folder: str) -> dict[str, Mapping[str, Any]]:
  """Returns x and y by user, from all .json files of a folder.

  Raises:
    errors.DataError: If there is no such file, or one is unreadable or in
      another form; names the user.
  """
  paths = sorted(glob.glob(os.path.join(folder, '*.json')))
  if not paths:
    raise errors.DataError(f'{folder} must hold .json files, found none.')
  data: dict[str, Mapping[str, Any]] = {}
  for path in paths:
    for user, own in _read_file(path).items():
      if user in data:
        raise errors.DataError(
            f'{path}: a user must be in one file of {folder}, found {user} in'
            ' another one, too.'
        )
      data[user] = own
  return data


def _read_file(path: str) -> dict[str, Mapping[str, Any]]:
  """Returns x and y by user."""
  try:
    with open(path, encoding='utf-8') as file:
      content = json.load(file)
  except (OSError, ValueError) as error:
    raise errors.DataError(
        f'{path} must be a JSON file of LEAF, and could not be read'
        f' ({errors.first_line(error)}).'
    ) from error
  if not (
      isinstance(content, dict) and isinstance(content.get('users'), list)
      and isinstance(content.get('user_data'), dict)
  ):
    raise errors.DataError(
        f'{path} must have "users" and "user_data", found'
        f' {", ".join(content) if isinstance(content, dict) else "neither"}.'
    )
  data, counts = content['user_data'], content.get('num_samples')
  users = content['users']
  for number, user in enumerate(users):
    own = data.get(user)
    if not isinstance(own, dict) or not {'x', 'y'} <= set(own):
      raise errors.DataError(
          f'{path}: user {user} must have "x" and "y" in "user_data", found'
          f' {"no entry" if own is None else "another entry"}.'
      )
    sizes = [len(own['x']), len(own['y'])]
    expected = counts[number] if counts else sizes[0]
    if sizes != [expected, expected]:
      raise errors.DataError(
          f'{path}: user {user} must have {expected} examples, found'
          f' {sizes[0]} in "x" and {sizes[1]} in "y".'
      )
  return {user: data[user] for user in users}
