"""A throw-away authority and a server's certificate that it has signed, for TLS on loopback."""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
from typing import TYPE_CHECKING, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from stepbench_tools.local.processes import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NAMES = (x509.IPAddress(ipaddress.ip_address(LOOPBACK)), x509.DNSName("localhost"))
_VALID = dt.timedelta(days=30)
_SKEW = dt.timedelta(hours=1)
_PRIVATE, _PUBLIC = 0o600, 0o644


class Certificates(NamedTuple):
    """The PEM files are the server's own certificate, its key, and the authority that has signed it."""

    certificate: Path
    key: Path
    authority: Path


def make_certificates(directory: Path, names: Sequence[x509.GeneralName] = NAMES) -> Certificates:
    """
    Make an authority and a certificate, valid for 30 days from an hour ago.

    The authority's key is never written, so nothing else can ever be signed with it; the server's is 0600.

    Args:
        directory: made if need be; what an earlier call left in it is replaced.
        names: of the server; 127.0.0.1 and localhost without them.
    """
    directory.mkdir(parents=True, exist_ok=True)
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = _named("Stepbench throw-away authority")
    authority = _builder(issuer, issuer, authority_key.public_key())
    authority = authority.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    authority = authority.add_extension(_usage(signs=True), critical=True)
    server = _builder(_named("localhost"), issuer, key.public_key())
    server = server.add_extension(x509.SubjectAlternativeName(names), critical=False)
    server = server.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    server = server.add_extension(_usage(signs=False), critical=True)
    server = server.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
    )
    paths = certificates_in(directory)
    for path, builder in ((paths.authority, authority), (paths.certificate, server)):
        signed = builder.sign(authority_key, hashes.SHA256())
        _write(path, signed.public_bytes(serialization.Encoding.PEM), _PUBLIC)
    encoding, layout = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    _write(paths.key, key.private_bytes(encoding, layout, serialization.NoEncryption()), _PRIVATE)
    return paths


def certificates_in(directory: Path) -> Certificates:
    """Return the paths that `make_certificates` writes."""
    return Certificates(directory / "server.crt", directory / "server.key", directory / "authority.crt")


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(tz=dt.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - _SKEW).not_valid_after(now + _VALID)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _write(path: Path, content: bytes, mode: int) -> None:
    """Write a file with its mode from the first moment on, whatever the umask."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE), "wb") as file:
        file.write(content)
    path.chmod(mode)
