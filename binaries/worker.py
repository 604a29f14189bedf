"""Runs one host of the remote runtime: one of TFF's C++ workers.

    python -m binaries.worker [--host=127.0.0.1] [--port=8000]
        [--tls_cert=FILE --tls_key=FILE --tls_ca=FILE]

Runs a worker for programs that are started elsewhere with --runtime=remote
--workers=HOST:8000,...; see docs/remote.md. Prints `ready` when it is up; ends
on SIGTERM, Ctrl-C, or with the program that started it (unless under nohup). A
worker that crashes or hangs is restarted. It serves one program at a time, and
is restarted after each, however the program ended.

A program that reaches the port can run any code here, so by default only
programs on this machine can connect (an ssh tunnel lets others in). With
another --host, give the TLS files or use a private network: without TLS there
is neither a password nor encryption.

  --host
      Name or address of the interface to listen on; default: 127.0.0.1. For
      all interfaces: 0.0.0.0, or :: with IPv6.
  --port
      Port to listen on, 1 to 65535; default: 8000.
  --tls_cert, --tls_key, --tls_ca
      PEM files: certificate of this host, its private key without a password,
      and the authority's certificate. Only drivers with a certificate of that
      authority are served. Default: no TLS.
"""

# To start quickly and stay small, this program imports neither TensorFlow nor
# TFF, and therefore not `tff_pers.experiments` either.
import sys
from typing import Sequence

from tff_pers.runtime.serving import host


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  if '--help' in argv or '-h' in argv:
    print(__doc__)
    return 0
  return host.run(argv)


if __name__ == '__main__':
  sys.exit(main(sys.argv))
