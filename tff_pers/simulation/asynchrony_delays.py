"""How long clients take: models of compute and network time, in seconds.

    exponential[mean=1,slow=10]   pareto[shape=1.5]   trace[file=delays.csv]

The time is virtual: no run waits for it. It does not depend on what is trained.
"""

import csv
import dataclasses
from typing import Any, Callable, Collection, Mapping, Optional, Sequence

import numpy as np

from tff_pers.config import hyperparameters as hp
from tff_pers.data import brackets

TRACE_COLUMNS = ('client', 'compute_seconds', 'network_seconds')


@dataclasses.dataclass(frozen=True)
class _Speeds(hp.Hyperparameters):
  """Clients of different speed."""

  slow: float = hp.field(
      1.0, 'The last client takes this many times as long as the first; clients'
      ' between them are equally spaced.', minimum=1.0,
  )

  def factor(self, client: int, num_clients: int) -> float:
    """Returns the time of a client in that of the first one, >= 1."""
    return 1.0 + (self.slow - 1.0) * client / max(num_clients - 1, 1)


@dataclasses.dataclass(frozen=True)
class Constant(_Speeds):
  """The same time for every visit."""

  seconds: float = hp.field(1.0, 'Time of the first client.', minimum=0.0)

  def draw(self, generator: np.random.Generator) -> float:
    """Returns `seconds`."""
    del generator  # Nothing is drawn.
    return self.seconds


@dataclasses.dataclass(frozen=True)
class Exponential(_Speeds):
  """Memoryless: mean * Exp(1)."""

  mean: float = hp.field(1.0, 'Mean time of the first client.', above=0.0)

  def draw(self, generator: np.random.Generator) -> float:
    """Returns a time of the first client, in seconds."""
    return self.mean * generator.standard_exponential()


@dataclasses.dataclass(frozen=True)
class Lognormal(_Speeds):
  """median * exp(sigma N(0, 1))."""

  median: float = hp.field(1.0, 'Median time of the first client.', above=0.0)
  sigma: float = hp.field(
      1.0, 'Standard deviation of its logarithm.', minimum=0.0
  )

  def draw(self, generator: np.random.Generator) -> float:
    """Returns a time of the first client, in seconds."""
    return self.median * np.exp(self.sigma * generator.standard_normal())


@dataclasses.dataclass(frozen=True)
class Pareto(_Speeds):
  """Heavy-tailed: longer than t with probability (scale / t)^shape."""

  scale: float = hp.field(1.0, 'Shortest time of the first client.', above=0.0)
  shape: float = hp.field(
      1.5, 'Exponent of the tail; up to 2 the variance is infinite, up to 1 the'
      ' mean is.', above=0.0,
  )

  def draw(self, generator: np.random.Generator) -> float:
    """Returns a time of the first client, in seconds."""
    return self.scale * (1.0 + generator.pareto(self.shape))


@dataclasses.dataclass(frozen=True)
class Trace(hp.Hyperparameters):
  """Measured times, see `read_trace`."""

  file: str = hp.field(
      '', 'CSV file with the columns client, compute_seconds, network_seconds.'
  )


MODELS: Mapping[str, Any] = {
    'constant': Constant, 'exponential': Exponential, 'lognormal': Lognormal,
    'pareto': Pareto, 'trace': Trace,
}
_NOTHING = Constant(seconds=0.0)


def parse(text: str, flag: str) -> Any:
  """Returns the model that a text names, e.g. `pareto[shape=1.5]`.

  Raises:
    ValueError: If there is none, or an option is invalid; names the flag.
  """
  name, options = brackets.parse(text)
  if name not in MODELS:
    raise ValueError(
        f'`{flag}` must be one of {", ".join(MODELS)}, found {name!r}.'
    )
  return brackets.fill(MODELS[name](), options, name)


class Delays:
  """How long each visit of a client takes, from its dispatch to its message."""

  def __init__(
      self, num_clients: int, compute: Any, network: Any = _NOTHING,
      rows: Optional[Sequence[np.ndarray]] = None,
  ):
    """Stores the models.

    Args:
      num_clients: N; clients are 0..N-1.
      compute: Model of the compute time, see `MODELS`.
      network: Model of the network time, both ways together.
      rows: The times of a trace, float64[visits, 2] per client, used instead of
        both models; after the last visit the trace starts again.
    """
    self._num_clients = num_clients
    self._models, self._rows = (compute, network), rows

  def draw(
      self, generator: np.random.Generator, client: int, visit: int
  ) -> float:
    """Returns the seconds >= 0 that visit 0, 1, ... of a client takes."""
    if self._rows is not None:
      own = self._rows[client]
      return float(own[visit % len(own)].sum())
    return float(sum(
        model.factor(client, self._num_clients) * model.draw(generator)
        for model in self._models
    ))


def build(
    delays: str, network_delays: str, names: Collection[Any],
    resolve: Callable[[str], str] = str,
) -> Delays:
  """Returns the delays that flags ask for.

  Args:
    delays: Text of the compute model, or a trace.
    network_delays: Text of the network model; empty: no network time.
    names: The clients' names in traces, in order.
    resolve: Converts the path of a trace into one that can be opened.

  Raises:
    ValueError: If a text is invalid, or a trace cannot be used.
  """
  compute = parse(delays, 'delays')
  if isinstance(compute, Trace):
    if network_delays:
      raise ValueError(
          '`network_delays` must be left out with a trace, which includes them,'
          f' found {network_delays!r}.'
      )
    return Delays(len(names), None, rows=read_trace(
        resolve(compute.file), names
    ))
  network = _NOTHING
  if network_delays:
    network = parse(network_delays, 'network_delays')
    if isinstance(network, Trace):
      raise ValueError(
          '`network_delays` must not be a trace, found'
          f' {network_delays!r}. Tip: pass it as `delays`.'
      )
  return Delays(len(names), compute, network)


def read_trace(path: str, names: Collection[Any]) -> list[np.ndarray]:
  """Returns the times in a CSV file, float64[visits, 2] of each client.

  A row is one visit of a client, in order; rows of other clients are ignored.

  Raises:
    ValueError: If the file lacks a column or a client, or has a time that is
      not a number >= 0; names the line.
  """
  found: dict[str, list[list[float]]] = {str(name): [] for name in names}
  try:
    with open(path, newline='', encoding='utf-8') as file:
      reader = csv.DictReader(file)
      missing = [c for c in TRACE_COLUMNS if c not in (reader.fieldnames or ())]
      if missing:
        raise ValueError(
            f'`delays` must name a file with the columns'
            f' {", ".join(TRACE_COLUMNS)}, found {path} without {missing[0]}.'
        )
      for row in reader:
        times = [_seconds(row[c], path, reader.line_num) for c in
                 TRACE_COLUMNS[1:]]
        if row['client'] in found:
          found[row['client']].append(times)
  except (OSError, UnicodeDecodeError, csv.Error) as error:
    raise ValueError(
        f'`delays` must name a CSV file that can be read, found {path!r}:'
        f' {error}.'
    ) from error
  silent = [name for name, rows in found.items() if not rows]
  if silent:
    raise ValueError(
        f'`delays` must name a file with a row for every client that trains,'
        f' found {path} without client {silent[0]}.'
    )
  return [np.array(rows, np.float64) for rows in found.values()]


def _seconds(text: Optional[str], path: str, line: int) -> float:
  """Returns a time of a trace as a number."""
  try:
    value = float(text or '')
  except ValueError:
    value = -1.0
  if not 0.0 <= value < np.inf:
    raise ValueError(
        '`delays` must name a file whose times are numbers >= 0, found'
        f' {text!r} in line {line} of {path}.'
    )
  return value
