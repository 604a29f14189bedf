"""Small files of texts, as `data/text_files.py` reads them."""

import gzip
import json

WORDS = ('the', 'a', 'cat', 'dog', 'sees', 'runs', 'fast', 'home')


def write(folder, name: str, content) -> str:
  """Writes an object, or bytes as they are; returns the folder."""
  if not isinstance(content, bytes):
    content = json.dumps(content, ensure_ascii=False).encode('utf-8')
  (folder / name).write_bytes(gzip.compress(content))
  return str(folder)


def roles(folder, num_roles: int = 4) -> str:
  """Writes `roles.json.gz`; role r has num_speeches + r speeches."""
  return write(folder, 'roles.json.gz', {
      f'play:R{r}': dict(speeches=[
          f'Speech {s} of role {r}: ay, ' + 'O! ' * (5 * s)
          for s in range(6 + r)
      ]) for r in range(num_roles)
  })


def questions(folder, num_users: int = 4) -> str:
  """Writes `questions.json.gz`; user u has num_posts + u questions."""
  rows = [(u, p) for u in range(num_users) for p in range(12 + u)]
  return write(folder, 'questions.json.gz', dict(
      user_id=[u for u, _ in rows],
      title=[' '.join(WORDS[(u + p + k) % 8] for k in range(2 + p % 5))
             for u, p in rows],
      tags=[f't{p % 3}|u{u}' for u, p in rows],
  ))
