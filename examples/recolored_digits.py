"""Writes digits with different colors per client, to compare FedBN.

    python -m examples.recolored_digits colors.npz
    python -m binaries.compare_tuned --algos=fedavg,fedbn,local_only \
        --task=npz --data_dir=colors.npz --model=cnn_bn ...

scikit-learn's 1,797 images of 8 x 8 pixels, distributed to twelve clients.
Client i sees a_i * image + b_i in each of three colors, with a_i of either
sign: labels mean the same everywhere, inputs differ in what batch normalization
removes. With `rotated` images are rotated by i quarter turns instead, which
batch normalization cannot remove.
"""

import sys
from typing import Sequence

import numpy as np
from sklearn import datasets

_CLIENTS = 12


def write(path: str, rotated: bool = False, seed: int = 0) -> None:
  """Writes x float32[n, 8, 8, 3], y int32[n] and client int32[n] as npz."""
  digits = datasets.load_digits()
  rng = np.random.default_rng(seed)
  order = rng.permutation(len(digits.target))
  images, y = digits.images[order] / 16, digits.target[order]
  client = np.arange(len(y)) % _CLIENTS
  x = np.repeat(images[..., None], 3, axis=-1)
  for i in range(_CLIENTS):
    own = client == i
    if rotated:
      x[own] = np.rot90(x[own], i, axes=(1, 2))
    else:
      a = rng.uniform(0.3, 1, 3) * rng.choice([-1, 1])
      x[own] = a * x[own] + rng.uniform(0, 1, 3)
  np.savez(
      path, x=x.astype(np.float32), y=y.astype(np.int32),
      client=client.astype(np.int32),
  )


def main(argv: Sequence[str]) -> None:
  """Writes the images to the given path."""
  write(argv[1], rotated='rotated' in argv[2:])


if __name__ == '__main__':
  main(sys.argv)
