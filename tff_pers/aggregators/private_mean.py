"""Mean with client-level differential privacy, by TFF's factories.

Learning Differentially Private Recurrent Language Models
    McMahan, Ramage, Talwar, Zhang. ICLR 2018.
Differentially Private Learning with Adaptive Clipping
    Andrew, Thakkar, McMahan, Ramaswamy. NeurIPS 2021.
"""

import dataclasses

from tff_pers.aggregators import absence
from tff_pers.aggregators import choice
from tff_pers.config import hyperparameters as hp
from tff_pers.core import process as process_lib
from tff_pers.data import brackets
from tff_pers import tff

NAME = 'private_mean'
_COUNT = 0.05


@dataclasses.dataclass(frozen=True)
class PrivateMean:
  """Parameters of the private mean.

  Each update is clipped to one norm over all of its entries; the server adds
  Gaussian noise to the sum and divides by the number of clients of a round,
  where absent clients count as zeros. Clients have equal weights.
  """

  noise_multiplier: float = hp.field(
      1.0, 'z, the standard deviation of the noise divided by the clipping'
      ' norm; with adaptive clipping that of update and norm together.'
  )
  clients: int = hp.field(1, 'm, number of clients per round.')
  clip: float = hp.field(
      0.0, 'The clipping norm; 0: a private estimate of the median norm of the'
      ' updates, starting from 0.1.'
  )

  @property
  def text(self) -> str:
    """The value of `aggregator` that denotes it."""
    options = ','.join(f'{k}={v}' for k, v in dataclasses.asdict(self).items())
    return f'{NAME}[{options}]'


@choice.RULES.register(NAME, lambda build: build)
def build_factory(text: str) -> tff.aggregators.WeightedAggregationFactory:
  """Returns TFF's factory, in which absent clients count as zeros.

  Args:
    text: See `PrivateMean.text`.
  """
  rule = brackets.fill(PrivateMean(), brackets.parse(text)[1], NAME)
  factory = tff.aggregators.DifferentiallyPrivateFactory
  if rule.clip:
    mean = factory.gaussian_fixed(
        rule.noise_multiplier, rule.clients, rule.clip
    )
  else:
    # TFF's default, .05 of the clients, would spend more on the norm than is
    # available if a round has fewer than 10 z clients. This spends at most 1/4.
    mean = factory.gaussian_adaptive(
        rule.noise_multiplier, rule.clients,
        clipped_count_stddev=max(_COUNT * rule.clients, rule.noise_multiplier),
    )
  return absence.leave_out_absent(mean)


def takes_all(process: process_lib.PersonalizedProcess) -> bool:
  """Whether this mean is applied to everything that clients send.

  Its state is then the whole state of the method's aggregator.

  Args:
    process: A method that was built with `aggregator` a `PrivateMean`.
  """
  state = process.initialize.type_signature.result.member
  return process.parts is not None and hasattr(state, 'aggregator') and hasattr(
      state.aggregator, 'is_init_state'
  )
