"""Runs FedAvg of pfl-research (`pfl`) on a workload, for comparison.

Started like `cell`, by the Python that `--pfl_python` names; pfl computes with
its PyTorch there. This project need not be installed there: of it, only `lines`
is imported.
"""

import itertools
import os
import sys

from pfl import metrics
from pfl.aggregate import simulate
from pfl.aggregate import weighting
from pfl.algorithm import base
from pfl.algorithm import federated_averaging
from pfl.data import federated_dataset
from pfl.data import pytorch as datasets
from pfl.data import sampling
from pfl.hyperparam import base as hyperparam
from pfl.model import pytorch
import torch
from torch import nn

from binaries.speed import lines

_LEARNING_RATE = 0.05
_NUM_EXAMPLES, _BATCH_SIZE, _CLASSES = 100, 20, 62


def main() -> None:
  name, device = sys.argv[1:]
  has_gpu = torch.cuda.is_available()
  if device.startswith('gpu') and not has_gpu:
    raise SystemExit('PyTorch sees no GPU')
  if device:
    os.environ['PFL_PYTORCH_DEVICE'] = device.replace('gpu', 'cuda')
  lines.serve(_rounds(name), 'gpu' if has_gpu and device != 'cpu' else 'cpu')


def _rounds(name):
  """Returns a function that runs a round."""
  # One thread takes the fewest CPU seconds. Two wait busily for each other:
  # 1.9, 1.3 and 2 times as many on W1, W2 and W3; but W2 takes 0.65 times the
  # wall seconds.
  torch.set_num_threads(1)
  torch.manual_seed(0)
  layers = {'W1': _mlp, 'W2': _cnn, 'W3': _mlp}[name]()
  num_clients = 100 if name == 'W3' else 10
  module = _Classifier(*layers)
  model = pytorch.PyTorchModel(
      module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0)
  )
  clients = [_images() for _ in range(num_clients)]

  def shuffled(client):
    # pfl does not shuffle, but makes a client's data set in every round.
    rows = torch.randperm(_NUM_EXAMPLES)
    return datasets.PyTorchTensorDataset(
        tuple(leaf[rows] for leaf in clients[client])
    )

  data = federated_dataset.FederatedDataset(
      shuffled, sampling.MinimizeReuseUserSampler(range(num_clients))
  )
  backend = simulate.SimulatedBackend(
      data, data, [weighting.WeightByDatapoints()]
  )
  algorithm = federated_averaging.FederatedAveraging()
  training = hyperparam.NNTrainHyperParams(
      local_batch_size=_BATCH_SIZE, local_num_epochs=1,
      local_learning_rate=_LEARNING_RATE,
  )
  totals = itertools.count(1)

  def play():
    parameters = base.NNAlgorithmParams(
        central_num_iterations=next(totals),  # One more than so far.
        evaluation_frequency=sys.maxsize,  # Only in the first round.
        train_cohort_size=num_clients, val_cohort_size=None,
    )
    algorithm.run(
        parameters, backend, model, training, send_metrics_to_platform=False
    )
    if torch.cuda.is_available():
      torch.cuda.synchronize()  # PyTorch returns before a GPU is done.

  return play


def _images():
  return (
      torch.rand(_NUM_EXAMPLES, 28, 28),
      torch.randint(_CLASSES, (_NUM_EXAMPLES,)),
  )


class _Classifier(nn.Sequential):
  """Layers with the methods that pfl asks for."""

  def loss(self, x, y):
    return nn.functional.cross_entropy(self(x), y)

  @torch.no_grad()
  def metrics(self, x, y):
    return dict(loss=metrics.Weighted(self.loss(x, y).item() * len(y), len(y)))


def _mlp():
  """MLP 784-200-62."""
  return (
      nn.Flatten(), nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, _CLASSES),
  )


def _cnn():
  """The model `emnist_cnn`; its dropout draws from PyTorch's generator."""
  return (
      nn.Unflatten(1, (1, 28)), nn.Conv2d(1, 32, 3), nn.ReLU(),
      nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25),
      nn.Flatten(), nn.Linear(64 * 12 * 12, 128), nn.ReLU(), nn.Dropout(0.5),
      nn.Linear(128, _CLASSES),
  )


if __name__ == '__main__':
  main()
