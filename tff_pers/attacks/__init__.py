"""Byzantine attacks, as wrappers of client works and aggregators."""

from tff_pers.attacks.adaptive import Adaptive
from tff_pers.attacks.aggregation import attacked
from tff_pers.attacks.attack import Attack
from tff_pers.attacks.attack import names
from tff_pers.attacks.attack import parse
from tff_pers.attacks.messages import Alie
from tff_pers.attacks.messages import BitFlip
from tff_pers.attacks.messages import Huge
from tff_pers.attacks.messages import Inf
from tff_pers.attacks.messages import Ipm
from tff_pers.attacks.messages import LabelFlip
from tff_pers.attacks.messages import Mimic
from tff_pers.attacks.messages import Nan
from tff_pers.attacks.messages import Noise
from tff_pers.attacks.messages import SignFlip
from tff_pers.attacks.messages import Silent
from tff_pers.attacks.mixed import Mixed
from tff_pers.attacks.scope import carried_out
from tff_pers.attacks.screening import screen
