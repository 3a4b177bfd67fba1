"""The list of controllers: defaults, credentials apart, and one line for whatever cannot be used."""

import asyncio
import hashlib
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from fake_bmc import PASSWORD, FakeBmc

from collectors.cooling.redfish_http import Client, Login, RedfishError
from collectors.cooling.redfish_targets import load
from runtime.errors import UserError
from schemas.matrix import Matrix
from simulator.controllers import tray_tree

TREE = tray_tree(Matrix.of(["t1/Manifold"], ["leak_detected"], [[0.0]]), "t1")


def listing(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "bmc.toml"
    path.write_text(text)
    return path


GOOD = """
rack = "r7"
user = "monitor"
password_env = "BMC_PASSWORD"

[[bmc]]
name = "t1-bmc"
url = "https://10.0.7.1"
node = "t1"

[[bmc]]
name = "cdu"
url = "http://10.0.7.200:8080/"
rack = "row-c"
user = "other"
password_file = "{file}"
insecure = true
basic = true
timeout_s = 9
"""


def test_what_holds_for_all_holds_where_nothing_else_is_said(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("from a file\n")
    text = GOOD.format(file=tmp_path / "secret").replace('password_env = "BMC_PASSWORD"\n', "")
    text = text.replace('node = "t1"', 'node = "t1"\npassword_env = "BMC_PASSWORD"')
    tray, unit = load(listing(tmp_path, text), "r1", {"BMC_PASSWORD": "from the environment"})
    assert (tray.name, tray.url, tray.node, tray.rack, tray.timeout_s) == ("t1-bmc", "https://10.0.7.1", "t1", "r7", 5)
    assert tray.login == Login("monitor", "from the environment")
    assert tray.context is not None
    assert tray.context.verify_mode == ssl.CERT_REQUIRED
    assert (unit.url, unit.rack, unit.timeout_s, unit.context) == ("http://10.0.7.200:8080", "row-c", 9, None)
    assert unit.login == Login("other", "from a file", basic=True)
    assert (tray.prefix, unit.prefix) == ("t1/", "cdu:")


def test_no_password_is_in_what_is_printed(tmp_path: Path) -> None:
    targets = load(listing(tmp_path, GOOD.split('[[bmc]]\nname = "cdu"')[0]), "", {"BMC_PASSWORD": "hunter2"})
    assert "hunter2" not in repr(targets)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"bmc\.toml: .*`bmc`"),
        ("bmc = 3", r"bmc\.toml: .*array"),
        ("not toml", r"bmc\.toml: "),
        ('[[bmc]]\nname = "a"\nurl = "10.0.0.1"\nrack = "r"', r"bmc\.toml: .*url"),
        ('[[bmc]]\nname = "a/b"\nurl = "https://h"\nrack = "r"', r"bmc\.toml: .*name"),
        ('[[bmc]]\nname = "a"\nurl = "https://h"\nrack = "r"\npasword = "x"', r"unknown field `pasword`"),
        ('[[bmc]]\nname = "a"\nurl = "https://h"', "'a' has no rack"),
        ('[[bmc]]\nname = "a"\nurl = "https://h"\nrack = "r"\nuser = "u"', "user without password"),
        ('[[bmc]]\nname = "a"\nurl = "https://h"\nrack = "r"\nuser = "u"\npassword_env = "NO"', "no variable NO"),
        ('[[bmc]]\nname = "a"\nurl = "https://h"\nrack = "r"\nuser = "u"\npassword_file = "/no"', "/no cannot be read"),
        ('[[bmc]]\nname = "a"\nurl = "http://h"\nrack = "r"\nuser = "u"\npassword_env = "YES"', "over plain http"),
        ('[[bmc]]\nname = "a"\nurl = "https://h"\nrack = "r"\nca = "/no"', "/no is no file of certificates"),
        ('[[bmc]]\nname = "a"\nurl = "https://h"\nrack = "r"\nfingerprint = "ab"', "fingerprint"),
        (
            'rack = "r"\n[[bmc]]\nname = "a"\nurl = "https://h"\n[[bmc]]\nname = "a"\nurl = "https://i"',
            "two controllers",
        ),
    ],
)
def test_a_list_that_cannot_be_used_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        load(listing(tmp_path, text), "", {"YES": "secret"})
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_list_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--bmc-targets"):
        load(tmp_path / "no.toml", "r", {})


class Certificate(NamedTuple):
    """A self-signed certificate as most controllers have, on disk."""

    pem: Path
    fingerprint: str

    def server(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.pem)
        return context


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bmc")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime.now(UTC) - timedelta(days=1))
        .not_valid_after(datetime.now(UTC) + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = tmp_path_factory.mktemp("tls") / "bmc.pem"
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    pem.write_bytes(secret + made.public_bytes(serialization.Encoding.PEM))
    return Certificate(pem, hashlib.sha256(made.public_bytes(serialization.Encoding.DER)).hexdigest())


def ask(tmp_path: Path, bmc: FakeBmc, more: str) -> object:
    """The root document, asked for as a list with `more` says."""
    text = f'user = "u"\npassword_env = "P"\n[[bmc]]\nname = "a"\nrack = "r"\nurl = "{bmc.url}"\n{more}\n'
    (target,) = load(listing(tmp_path, text), "", {"P": PASSWORD})

    async def once() -> object:
        client = Client(target.url, target.login, target.context, target.fingerprint, target.timeout_s)
        try:
            return await client.get("/redfish/v1/")
        finally:
            await client.close()

    return asyncio.run(once())


def test_a_self_signed_certificate_is_taken_by_its_authority_its_fingerprint_or_on_demand(
    tmp_path: Path, certificate: Certificate
) -> None:
    with FakeBmc(TREE, tls=certificate.server()) as bmc:
        for more in (
            f'ca = "{certificate.pem}"',
            f'fingerprint = "sha256:{certificate.fingerprint}"',
            "insecure = true",
        ):
            assert ask(tmp_path, bmc, more) == TREE["/redfish/v1"]
        assert bmc.sessions == []
        logins = bmc.logins
        for more in ("", f'fingerprint = "{"0" * 64}"'):
            with pytest.raises(RedfishError) as caught:
                ask(tmp_path, bmc, more)
            assert caught.value.code == "tls"
        assert bmc.logins == logins, "no password to somebody else"
