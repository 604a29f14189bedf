"""Robust aggregation: rules, by name, and as TFF factories."""

from tff_pers.aggregators import choice
from tff_pers.aggregators.robust.factory import build_factory
from tff_pers.aggregators.robust.factory import RobustFactory
from tff_pers.aggregators.robust.naming import as_text
from tff_pers.aggregators.robust.naming import check
from tff_pers.aggregators.robust.naming import names
from tff_pers.aggregators.robust.naming import parse
from tff_pers.aggregators.robust.naming import with_num_byzantine

for _name in names():
  choice.RULES.register(_name, lambda build: build)(build_factory)
