"""Code shared by programs: experiments, single runs, sweeps, searches."""
