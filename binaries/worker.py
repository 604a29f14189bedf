"""Runs one host of the remote runtime: one of TFF's C++ workers.

    python -m binaries.worker --port=8000
"""

# To start quickly and to stay small, this program imports neither TensorFlow
# nor TFF, and therefore not `tff_pers.experiments`.
import sys
from typing import Sequence

from tff_pers.runtime.serving import host

SUMMARY = """\
python -m binaries.worker [--host=127.0.0.1] [--port=8000]
    [--tls_cert=FILE --tls_key=FILE --tls_ca=FILE]

Runs a worker for programs that are started elsewhere with --runtime=remote
--workers=HOST:8000,...; see docs/remote.md. Says `ready` when it is, and ends
on SIGTERM, Ctrl-C, or with the program that started it (unless under nohup). A
worker that crashes or hangs is started again. It serves one program at a time,
and is started afresh after each, however that ended.

Whoever reaches the port can run anything here, so by default only programs on
this machine do (an ssh tunnel brings others). On another --host, give the TLS
files or use a private network: without them there is no password and no
encryption.

  --host
      Name or address of the interface to listen on; default: 127.0.0.1. All of
      them: 0.0.0.0, or :: with IPv6.
  --port
      Port to listen on, 1 to 65535; default: 8000.
  --tls_cert, --tls_key, --tls_ca
      PEM files: certificate of this host, its private key without a password,
      and the authority's certificate. Only drivers with a certificate of that
      authority are served. Default: no TLS."""


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  if '--help' in argv or '-h' in argv:
    print(SUMMARY)
    return 0
  return host.run(argv)


if __name__ == '__main__':
  sys.exit(main(sys.argv))
