"""Small files of all data sets of the benchmarks, in their original formats."""

from tests.data import cifar_files
from tests.data import text_sources
from tests.data.formats import files

_WRITERS = 8


def write(folder) -> None:
  """Writes them all; images are noise, and texts are short."""
  sizes = {f'w{i}': (101 + i, 26 + i) for i in range(_WRITERS)}
  files.sqlite(folder / 'emnist' / 'emnist_all.sqlite', {
      f'all_{part}': files.emnist(
          {writer: pair[k] for writer, pair in sizes.items()}, seed=k
      )
      for k, part in enumerate(('train', 'test'))
  })
  cifar_files.write(folder / 'cifar10', 'cifar10', 'python', 1000, 200)
  cifar_files.write(folder / 'cifar100', 'cifar100', 'python', 1000, 200)
  text_sources.roles(_made(folder / 'shakespeare'), num_roles=9)
  text_sources.questions(_made(folder / 'stackoverflow'), num_users=9)


def _made(folder):
  folder.mkdir()
  return folder
