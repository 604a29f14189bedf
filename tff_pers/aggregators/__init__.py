"""TFF aggregation factories and keyed exchanges."""

from tff_pers.aggregators import private_mean
from tff_pers.aggregators import robust
from tff_pers.aggregators.dispersion import DispersionFactory
from tff_pers.aggregators.entry_weight import EntryWeightFactory
from tff_pers.aggregators.low_rank import LowRankMeanFactory
from tff_pers.aggregators.partial import PartialMeanFactory
from tff_pers.aggregators.router import router_weight
from tff_pers.aggregators.router import RouterWeightedFactory
from tff_pers.aggregators.shuffling import build_fetch
from tff_pers.aggregators.shuffling import RowCollectionFactory
from tff_pers.aggregators.shuffling import scatter
