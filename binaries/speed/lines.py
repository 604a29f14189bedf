"""The protocol of child processes: each line read is answered by one of JSON.

Needs only Python, because scripts of peers run in environments of their own.
"""

import json
import sys
import time
from typing import Callable


def serve(play: Callable[[], None], device: str) -> None:
  """Runs a round for every line of standard input, until it is closed."""
  print(json.dumps(dict(device=device)), flush=True)
  for _ in sys.stdin:
    start = time.perf_counter()
    play()
    seconds = time.perf_counter() - start
    print(json.dumps(dict(seconds=seconds)), flush=True)
