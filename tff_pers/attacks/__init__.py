"""Byzantine attacks as wrappers of client works and aggregators."""

from tff_pers.attacks import adaptive  # pylint: disable=unused-import
from tff_pers.attacks import messages  # pylint: disable=unused-import
from tff_pers.attacks.aggregation import attacked
from tff_pers.attacks.attack import Attack
from tff_pers.attacks.attack import names
from tff_pers.attacks.attack import parse
from tff_pers.attacks.scope import build_in
from tff_pers.attacks.scope import carried_out
from tff_pers.attacks.scope import poisoned
from tff_pers.attacks.scope import tagged
from tff_pers.attacks.screening import screen
