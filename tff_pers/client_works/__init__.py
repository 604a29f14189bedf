"""Computations on clients."""

from tff_pers.client_works.client_work import as_personalized
from tff_pers.client_works.client_work import ClientOutput
from tff_pers.client_works.client_work import ClientWork
from tff_pers.client_works.local_sgd import build_local_sgd
from tff_pers.client_works.tff_client_work import as_client_work_process
