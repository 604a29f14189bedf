"""TLS between drivers and workers, where both sides show a certificate."""

import os
import ssl
from typing import NamedTuple, Optional

import grpc


class Files(NamedTuple):
  """Paths of PEM files.

  Attributes:
    cert: Our certificate, followed by the chain up to the authority's.
    key: Its private key, without a password.
    ca: The certificate of the authority that signed both sides' certificates.
  """

  cert: str
  key: str
  ca: str


def files(cert: str, key: str, ca: str) -> Optional[Files]:
  """Returns the files, or None if no path is given.

  Raises:
    ValueError: If only some paths are given, or a file cannot be used.
  """
  paths = dict(tls_cert=cert, tls_key=key, tls_ca=ca)
  if not any(paths.values()):
    return None
  for name, path in paths.items():
    if not path:
      raise ValueError(
          f'`{name}` must be given with the other two of `tls_cert`, `tls_key`'
          ' and `tls_ca`, found none.'
      )
  for name, path in paths.items():
    if not os.path.isfile(path):
      raise ValueError(f'`{name}` must be a file, found {path}.')
  found = Files(cert, key, ca)
  client_context(found)
  return found


def server_context(own: Files) -> ssl.SSLContext:
  """Returns the context of a worker, which refuses drivers it cannot verify."""
  context = _context(ssl.PROTOCOL_TLS_SERVER, own)
  context.verify_mode = ssl.CERT_REQUIRED
  context.set_alpn_protocols(['h2'])  # gRPC insists.
  return context


def client_context(own: Files) -> ssl.SSLContext:
  """Returns the context of a driver, which also checks the worker's name."""
  return _context(ssl.PROTOCOL_TLS_CLIENT, own)


def credentials(own: Files) -> grpc.ChannelCredentials:
  """Returns the same credentials for gRPC."""
  contents = []
  for path in (own.ca, own.key, own.cert):
    with open(path, 'rb') as file:
      contents.append(file.read())
  return grpc.ssl_channel_credentials(*contents)


def _context(protocol, own: Files) -> ssl.SSLContext:
  context = ssl.SSLContext(protocol)
  context.minimum_version = ssl.TLSVersion.TLSv1_2
  try:
    # With an empty password, an encrypted key fails instead of prompting.
    context.load_cert_chain(own.cert, own.key, password='')
  except OSError as error:
    raise ValueError(
        f'`tls_cert` and `tls_key` must be a certificate and its private key'
        f' without a password, found {own.cert} and {own.key} ({error}).'
    ) from error
  try:
    context.load_verify_locations(own.ca)
  except OSError as error:
    raise ValueError(
        f'`tls_ca` must be a certificate, found {own.ca} ({error}).'
    ) from error
  return context
