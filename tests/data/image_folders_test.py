"""Folders of images become tables, or a sentence."""

import numpy as np
import pytest
import tensorflow as tf

from tests import built
from tff_pers.data import errors
from tff_pers.data import image_folders
from tff_pers.data import new_data


def _write(folder, path, value=0, shape=(2, 3, 1)):
  target = folder / path
  target.parent.mkdir(parents=True, exist_ok=True)
  image = tf.constant(np.full(shape, value, np.uint8))
  encode = tf.io.encode_png if path.endswith('png') else tf.io.encode_jpeg
  target.write_bytes(encode(image).numpy())


def _folder(tmp_path):
  for client in ('ann', 'Smith, Bob'):
    for number, label in enumerate(('dog', 'cat', 'dog')):
      _write(tmp_path, f'{client}/{label}/{number}.png', 51 * number)
  (tmp_path / 'ann' / '.DS_Store').write_bytes(b'x')
  return tmp_path


def test_images_have_clients_and_classes_of_their_folders(tmp_path):
  table = image_folders.read(str(_folder(tmp_path)))
  assert table.names.tolist() == ['Smith, Bob', 'ann']
  assert table.classes == ('cat', 'dog') and table.y.tolist() == [0, 1, 1] * 2
  assert table.client.tolist() == [0] * 3 + [1] * 3
  assert table.x.dtype == np.float32 and table.x.shape == (6, 2, 3, 1)
  np.testing.assert_allclose(table.x[:3, 0, 0, 0], [0.2, 0, 0.4], rtol=1e-6)
  assert table.place(3) == 'ann/cat/1.png of client ann'


def test_a_task_and_later_images(tmp_path):
  task = built.task('images', _folder(tmp_path))
  assert task.num_classes == 2 and task.class_names == ['cat', 'dog']
  assert task.model.x_spec.shape.as_list() == [None, 2, 3, 1]
  assert 'Classification: 2 classes (cat: 2, dog: 4 rows). 2 clients' in (
      task.about
  )
  later = new_data.read(str(tmp_path), task.features, [2, 3, 1])
  np.testing.assert_array_equal(
      later.x, image_folders.read(str(tmp_path)).x
  )


@pytest.mark.parametrize('path, message', [
    ('ann/notes.txt', 'client/class/image.png, found ann/notes.txt'),
    ('top.png', 'found top.png'), ('ann/dog/notes.txt', 'found ann/dog/notes'),
    ('ann/dog/deep/1.png', 'found ann/dog/deep/1.png'),
    ('zoe/dog/broken.png', 'zoe/dog/broken.png must be a readable image'),
])
def test_raises_on_other_files(tmp_path, path, message):
  target = _folder(tmp_path) / path
  target.parent.mkdir(parents=True, exist_ok=True)
  target.write_bytes(b'no image')
  with pytest.raises(errors.DataError, match=message):
    image_folders.read(str(tmp_path))


def test_raises_on_other_sizes_and_none(tmp_path):
  with pytest.raises(errors.DataError, match='client/class/image.png, found n'):
    image_folders.read(str(tmp_path))
  with pytest.raises(errors.DataError, match='must name a folder of images'):
    image_folders.read(str(tmp_path / 'nowhere'))
  _write(_folder(tmp_path), 'ann/dog/9.jpg', shape=(2, 3, 3))
  with pytest.raises(errors.DataError, match=(
      r'found \[2, 3, 1\] in Smith, Bob/cat/1.png and \[2, 3, 3\] in ann/dog/9'
  )):
    image_folders.read(str(tmp_path))
