"""Robust rules as functions of the stacked messages, float[n, d]."""

from tff_pers.numerics.robust.centers import centered_clipping
from tff_pers.numerics.robust.centers import geometric_median
from tff_pers.numerics.robust.columns import mean
from tff_pers.numerics.robust.columns import median
from tff_pers.numerics.robust.columns import trimmed_mean
from tff_pers.numerics.robust.lengths import are_finite
from tff_pers.numerics.robust.lengths import distances
from tff_pers.numerics.robust.mixing import adaptive_norm
from tff_pers.numerics.robust.mixing import bucketing
from tff_pers.numerics.robust.mixing import clip_norms
from tff_pers.numerics.robust.mixing import median_norm
from tff_pers.numerics.robust.mixing import nearest_neighbour_mixing
from tff_pers.numerics.robust.neighbours import krum
from tff_pers.numerics.robust.neighbours import multi_krum
