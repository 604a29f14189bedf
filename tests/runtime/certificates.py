"""Certificates for tests of TLS, made by the program `openssl`."""

import pathlib
import shutil
import subprocess

import pytest

needs_openssl = pytest.mark.skipif(
    shutil.which('openssl') is None, reason='needs the program openssl'
)


def _openssl(*arguments) -> None:
  subprocess.run(['openssl', *map(str, arguments)], check=True,
                 stderr=subprocess.DEVNULL)


def make_authority(folder: pathlib.Path) -> pathlib.Path:
  """Makes the certificate and the key of an authority; returns the former."""
  folder.mkdir()
  _openssl(
      'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256',
      '-nodes', '-days', 2, '-subj', '/CN=tests', '-keyout', folder / 'ca.key',
      '-out', folder / 'ca.pem',
  )
  return folder / 'ca.pem'


def sign(authority: pathlib.Path, name: str, host: str) -> dict[str, str]:
  """Returns the options of TLS for one side, signed by the authority."""
  folder = authority.parent
  key, request, cert = (folder / f'{name}.{e}' for e in ('key', 'csr', 'pem'))
  extension = folder / f'{name}.ext'
  extension.write_text(f'subjectAltName=DNS:{host}\n')
  _openssl(
      'req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes',
      '-subj', f'/CN={name}', '-keyout', key, '-out', request,
  )
  _openssl(
      'x509', '-req', '-in', request, '-CA', authority, '-CAkey',
      folder / 'ca.key', '-CAcreateserial', '-days', 2, '-extfile', extension,
      '-out', cert,
  )
  return dict(tls_cert=str(cert), tls_key=str(key), tls_ca=str(authority))


def as_flags(options: dict[str, str]) -> list[str]:
  return [f'--{name}={path}' for name, path in options.items()]
