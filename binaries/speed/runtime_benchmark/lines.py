"""What a child process says: a line of JSON for each line that it reads.

Needs nothing but Python: the script for FedJAX runs in another environment.
"""

import json
import sys
import time
from typing import Callable


def serve(play: Callable[[], None], device: str) -> None:
  """Plays a round for every line of standard input, until it ends."""
  print(json.dumps(dict(device=device)), flush=True)
  for _ in sys.stdin:
    start = time.perf_counter()
    play()
    seconds = time.perf_counter() - start
    print(json.dumps(dict(seconds=seconds)), flush=True)
