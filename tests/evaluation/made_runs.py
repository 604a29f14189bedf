"""Runs that nobody trained, in memory and as folders."""

import os

import numpy as np

from tff_pers.evaluation import results

_METRICS = (
    'round', 'seconds', 'accuracy_mean', 'loss_mean', 'accuracy_worst_decile',
    'bytes_down', 'bytes_up',
)


def run(variant, seed, regression=False, num_clients=6):
  """Returns a run of six clients, in groups, with everything that it can have."""
  generator = np.random.default_rng(seed)
  accuracy = np.full(4, np.nan) if regression else np.linspace(0.1, 0.9, 4)
  return results.Run(
      folder='',
      config=dict(
          variant=variant, flags=dict(task='digits', partition='iid'),
          parameters=dict(
              model=100, client={'perm': 150, 'fedavg': 100}.get(variant)
          ),
      ),
      metrics=dict(
          **(
              dict(cluster_accuracy=np.array([0.5, np.nan, 1.0, 1.0]),
                   cluster_nmi=np.array([0.0, np.nan, 1.0, 1.0]))
              if variant == 'perm' else {}
          ),
          round=np.array([5.0, 10.0, 15.0, 18.0]),
          accuracy_mean=accuracy + 0.01 * seed,
          loss_mean=np.linspace(2.0, 1.0, 4),
          bytes_down=np.full(4, 0.0 if variant == 'local_only' else 40.0),
          bytes_up=np.full(4, 0.0 if variant == 'local_only' else 60.0),
      ),
      clients=dict(
          seen=np.ones(num_clients),
          accuracy=np.full(num_clients, np.nan) if regression
          else generator.random(num_clients),
          loss=generator.random(num_clients),
      ),
      class_counts=generator.integers(0, 9, [num_clients, 10]),
      groups=np.array([1, 0, 1, 0, 2, 2]),
      mixing=generator.dirichlet(np.ones(num_clients), num_clients),
      router=generator.dirichlet(np.ones(3), num_clients),
  )


def read(folder, *args, **options) -> results.Run:
  """Returns the run that `write` writes."""
  return results.read_run(write(str(folder), *args, **options))


def read_all(top, *runs) -> list[results.Run]:
  """Returns runs, (variant, seed, options) each, below a folder."""
  return [
      read(top / variant / f'seed{seed}', variant, seed, **options)
      for variant, seed, options in runs
  ]


def write(
    folder, variant='fedavg', seed=0, *, evaluated=(2, 4, 6), accuracy=0.5,
    loss=1.0, clients=None, validation=None, finished=True, groups=None,
    mixing=None, router=None, columns=None, config=None, diverged=None,
    dropped=None, **flags,
):
  """Writes a run's folder; returns it.

  Args:
    folder: Where.
    variant: The method with its options.
    seed: The run's seed.
    evaluated: Rounds; each takes 2 seconds and sends 30 + 10 bytes.
    accuracy: `accuracy_mean` in the last of them; 0.1 less in each before. None
      on regression.
    loss: `loss_mean` in the last of them; 0.5 more in each before.
    clients: Accuracies (on regression: losses) by name, 10 test examples each.
    validation: `accuracy_validation` in the last round, or None.
    finished: Whether there is a `clients.csv`.
    groups: True groups of the clients, or None.
    mixing: Mixing weights, or None.
    router: Weights of adaptors, or None.
    columns: Further columns of `metrics.csv`, a value per round, or others.
    config: Further entries of `config.json`.
    diverged: The sentence of a run that diverged.
    dropped: Rounds by client in which it was dropped.
    **flags: Further flags.
  """
  clients = {'0': 0.4, '1': 0.6} if clients is None else clients
  algo = variant.partition('[')[0]
  results.write_config(folder, dict(
      dict(
          variant=variant,
          flags={
              'algo': algo, 'task': 'digits', 'partition': 'iid',
              'num_clients': len(clients), 'rounds': 6, 'seed': seed, **flags,
          },
          given=dict(algo=variant, seed=seed), versions=dict(python='3.11'),
          parameters=dict(model=100, client=120),
          cost=dict(macs=50.0, examples=8.0),
      ), **(config or {}),
  ))
  extra = dict(columns or {})
  if validation is not None:
    extra['accuracy_validation'] = [
        validation - 0.1 * back for back in range(len(evaluated))
    ][::-1]
  rows = []
  for i, number in enumerate(evaluated):
    back = len(evaluated) - 1 - i
    rows.append({
        **dict(
            round=number, seconds=2.0 * number,
            accuracy_mean=None if accuracy is None else accuracy - 0.1 * back,
            loss_mean=loss + 0.5 * back,
            accuracy_worst_decile=None if accuracy is None else accuracy / 2,
            bytes_down=30.0, bytes_up=10.0,
        ), **{name: values[i] for name, values in extra.items()},
    })
  results.write_csv(
      os.path.join(folder, results.METRICS),
      list(dict.fromkeys([*_METRICS, *extra])), rows,
  )
  if diverged:
    results.write_diverged(folder, diverged)
  if dropped:
    results.write_dropped(folder, dropped)
  if groups is not None:
    results.write_data(folder, range(len(clients)), None, groups)
  for name, matrix in ((results.MIXING, mixing), (results.ROUTER, router)):
    if matrix is not None:
      np.save(os.path.join(folder, name), np.asarray(matrix, np.float32))
  if finished:
    results.write_clients(folder, [
        dict(
            client=name, seen=1, num_train=10, num_test=10,
            accuracy=None if accuracy is None else value,
            loss=1 - value if accuracy is not None else value,
        ) for name, value in clients.items()
    ])
  return str(folder)
