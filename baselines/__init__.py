"""Competing methods, one file each; importing this package registers them."""

from baselines.apfl import build_apfl
from baselines.ditto import build_ditto
from baselines.ensemble import build_ensemble
from baselines.fedavg import build_fedavg
from baselines.fedavg_finetuned import build_fedavg_finetuned
from baselines.fedem import build_fedem
from baselines.fedopt import build_fedopt
from baselines.ifca import build_ifca
from baselines.local_adaptor import build_local_adaptor
from baselines.local_only import build_local_only
from baselines.perfedavg import build_perfedavg
from baselines.pfedme import build_pfedme
