"""A regression task of three clients whose second one overflows."""

import numpy as np


def write(path, scale: float) -> None:
  """Writes the clients a, b, c as CSV, y = 2 x + 0.5; x of b is times `scale`."""
  generator = np.random.default_rng(0)
  with open(path, 'w', encoding='utf-8') as file:
    file.write('client,y,x0\n')
    for client in 'abc':
      for _ in range(6):
        x = generator.standard_normal() * (scale if client == 'b' else 1)
        file.write(f'{client},{2 * x + 0.5},{x}\n')
