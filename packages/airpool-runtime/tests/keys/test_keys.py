"""Keys: private files, certificates that name one process, rotation, expiry, revocation; no secret in a message."""

import json
import os
import shutil
import stat
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID
from typer.testing import CliRunner

from airpool_runtime.cli import keys as cli_keys
from airpool_runtime.keys import authority, credentials, secret
from airpool_runtime.keys.credentials import Trust, UntrustedError
from airpool_runtime.keys.secret import KeyFileError


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "keys"
    authority.create(folder)
    authority.add(folder, "device-3")
    return folder


@pytest.fixture
def keys(made, tmp_path):
    return shutil.copytree(made, tmp_path / "keys")


def trust(keys):
    return Trust((keys / "ca.crt").read_bytes(), keys / "revoked.crl")


def certificate(keys, name, kind="tls"):
    return (keys / name / f"{kind}.crt").read_bytes()


def test_private_keys_are_readable_by_their_owner_alone(keys):
    private = list(keys.rglob("*.key"))
    assert len(private) == 1 + 2 * 4
    for path in private:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for folder in (keys, *filter(os.path.isdir, keys.iterdir())):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o601])
def test_a_key_that_others_may_read_is_refused(keys, mode):
    for name in ("tls.key", "identity.key"):
        path = keys / "device-3" / name
        path.chmod(mode)
        with pytest.raises(KeyFileError, match=f"{mode:04o}, must be 0600"):
            secret.read(path)
        path.chmod(0o400)
        assert secret.private_key(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to give a file away")
def test_a_key_of_another_user_is_refused(keys):
    path = keys / "device-3" / "tls.key"
    os.chown(path, 12345, 12345)
    with pytest.raises(KeyFileError, match="belongs to user 12345"):
        secret.read(path)


def test_a_key_that_is_none_is_an_error_that_does_not_show_it(keys, tmp_path):
    path = tmp_path / "x.key"
    secret.write(path, b"-----BEGIN PRIVATE KEY-----\nSECRET\n-----END PRIVATE KEY-----\n")
    with pytest.raises(KeyFileError) as caught:
        secret.private_key(path)
    assert "SECRET" not in str(caught.value)
    with pytest.raises(KeyFileError, match="No such file"):
        secret.private_key(tmp_path / "none.key")
    with pytest.raises(KeyFileError, match="regular file"):
        secret.read(tmp_path)
    with pytest.raises(KeyFileError, match=r"give identity\.key"):
        secret.identity(keys / "device-3" / "tls.key")


def test_credentials_do_not_show_their_key(keys):
    own, _ = credentials.load(keys / "device-3")
    assert own.name == "device-3"
    assert own.key.startswith(b"-----BEGIN PRIVATE KEY")
    for text in (repr(own), str(own), f"{own}"):
        assert "PRIVATE" not in text
        assert own.key.decode().splitlines()[1] not in text


def test_a_certificate_names_one_process_and_says_what_it_may_do(keys):
    found = trust(keys)
    for name in (*authority.ROLES, "device-3"):
        assert found.name(certificate(keys, name)) == name
        parsed = x509.load_pem_x509_certificate(certificate(keys, name))
        uses = parsed.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert (ExtendedKeyUsageOID.SERVER_AUTH in uses) == (name != "device-3")
        assert not parsed.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        with pytest.raises(UntrustedError, match="holds no identity key"):
            found.identity(certificate(keys, name))
    name, key = found.identity(certificate(keys, "device-3", "identity"))
    own = secret.identity(keys / "device-3" / "identity.key")
    assert (name, key) == ("device-3", own.public_key())


def test_another_authority_and_rubbish_are_not_trusted(keys, tmp_path):
    authority.create(tmp_path / "others")
    authority.add(tmp_path / "others", "device-3")
    for wrong in (certificate(tmp_path / "others", "device-3"), b"", b"rubbish"):
        with pytest.raises(UntrustedError, match="did not issue"):
            trust(keys).name(wrong)


def test_a_certificate_expires(keys):
    authority.rotate(keys, "device-3", days=1e-9)
    with pytest.raises(UntrustedError, match="expired"):
        trust(keys).name(certificate(keys, "device-3"))
    with pytest.raises(KeyFileError, match="expired"):
        credentials.load(keys / "device-3")
    parsed = x509.load_pem_x509_certificate(certificate(keys, "server"))
    assert parsed.not_valid_after_utc - datetime.now(UTC) > timedelta(days=364)


def test_a_revoked_device_is_not_trusted_from_then_on(keys):
    found, own = trust(keys), certificate(keys, "device-3")
    authority.add(keys, "device-4")
    assert found.name(own) == "device-3"
    authority.revoke(keys, "device-3")
    with pytest.raises(UntrustedError, match="device-3 is revoked"):
        found.name(own)
    assert found.name(certificate(keys, "device-4")) == "device-4"
    assert (keys / "server" / "revoked.crl").read_bytes() == (keys / "revoked.crl").read_bytes()
    for again in (authority.rotate, authority.add):
        with pytest.raises(KeyFileError, match="keys reissue device-3"):
            again(keys, "device-3")


def test_a_revoked_device_is_replaced_by_one_with_a_new_identity(keys):
    found, old = trust(keys), {kind: certificate(keys, "device-3", kind) for kind in ("tls", "identity")}
    with pytest.raises(KeyFileError, match=r"not revoked: .* `airpool keys revoke device-3` first"):
        authority.reissue(keys, "device-3")
    with pytest.raises(KeyFileError, match="known are air, device-3"):
        authority.reissue(keys, "device-9")
    identity = secret.read(keys / "device-3" / "identity.key")
    authority.revoke(keys, "device-3")
    authority.reissue(keys, "device-3")
    assert secret.read(keys / "device-3" / "identity.key") != identity
    assert credentials.load(keys / "device-3")[0].name == "device-3"
    assert found.identity(certificate(keys, "device-3", "identity"))[0] == "device-3"
    for each in old.values():  # for good
        with pytest.raises(UntrustedError, match="device-3 is revoked"):
            found.name(each)
    authority.rotate(keys, "device-3")
    assert found.name(certificate(keys, "device-3")) == "device-3"


def test_rotation_keeps_the_identity_certificate_that_others_may_still_have(keys):
    """Its key stays: revoking it would only stop the devices that do not have the new one yet."""
    before = certificate(keys, "device-3", "identity")
    authority.rotate(keys, "device-3")
    assert trust(keys).identity(before) == trust(keys).identity(certificate(keys, "device-3", "identity"))
    authority.revoke(keys, "device-3")
    with pytest.raises(UntrustedError, match="revoked"):
        trust(keys).identity(before)


def test_every_folder_has_the_roster_of_all_devices(keys):
    for name in ("device-10", "device-4", "client-1"):
        authority.add(keys, name)
    shutil.rmtree(keys / "device-4")  # it was moved to its machine
    authority.rotate(keys, "device-3")
    content = (keys / "roster.pem").read_bytes()
    named = [trust(keys).name(one.public_bytes(Encoding.PEM)) for one in x509.load_pem_x509_certificates(content)]
    assert named == ["device-3", "device-4", "device-10"]
    for name in ("air", "server", "device-3", "device-10"):
        assert (keys / name / "roster.pem").read_bytes() == content
    assert b"PRIVATE" not in content


def test_expiry_is_announced_thirty_days_before(keys):
    def warning():
        return credentials.expiry_warning("air", datetime.fromtimestamp(credentials.load(keys / "air")[0].expires, UTC))

    assert warning() == ""
    authority.rotate(keys, "air", days=29.5)
    text = warning()
    assert text == "the certificate of air expires in 29 days: `airpool keys rotate air`"
    assert "has expired" in credentials.expiry_warning("air", datetime.now(UTC))
    said = CliRunner().invoke(cli_keys.app, ["show", "--keys", str(keys), "--json"])
    assert json.loads(said.stdout)["warnings"] == [text]


def test_what_is_reloaded_is_the_last_good_content(tmp_path, monkeypatch):
    monkeypatch.setattr(credentials, "_CHECK_SECONDS", 0.0)
    path, said = tmp_path / "number", []
    path.write_text("1")
    value = credentials.Reloaded(lambda: int(path.read_text()), [path], report=said.append)
    assert value() == 1
    path.write_text("rubbish")
    assert value() == 1
    assert "rubbish" in said[0]
    path.unlink()
    assert value() == 1
    path.write_text("23")
    assert value() == 23
    path.write_text("none")
    with pytest.raises(ValueError, match="none"):
        credentials.Reloaded(lambda: int(path.read_text()), [path])


def test_rotation_makes_a_new_connection_key_and_keeps_the_identity(keys):
    found = trust(keys)
    old, before = certificate(keys, "device-3"), secret.read(keys / "device-3" / "identity.key")
    key = secret.read(keys / "device-3" / "tls.key")
    authority.rotate(keys, "device-3")
    assert secret.read(keys / "device-3" / "identity.key") == before
    assert secret.read(keys / "device-3" / "tls.key") != key
    assert found.name(certificate(keys, "device-3")) == "device-3"
    with pytest.raises(UntrustedError, match="revoked"):
        found.name(old)
    assert credentials.load(keys / "device-3")[0].name == "device-3"


def test_a_list_that_is_missing_or_forged_trusts_nobody(keys, tmp_path):
    own = certificate(keys, "device-3")
    authority.create(tmp_path / "others")
    for content in ((tmp_path / "others" / "revoked.crl").read_bytes(), b"", b"rubbish"):
        (keys / "revoked.crl").write_bytes(content)
        with pytest.raises(UntrustedError, match="not signed by the authority"):
            trust(keys).name(own)
    (keys / "revoked.crl").unlink()
    with pytest.raises(UntrustedError, match="cannot be read"):
        trust(keys).name(own)


def test_without_descriptors_the_last_list_that_was_read_is_used(keys, caplog, no_descriptors):
    authority.add(keys, "device-4")
    found, own, other = trust(keys), certificate(keys, "device-3"), certificate(keys, "device-4")
    with no_descriptors(), pytest.raises(UntrustedError, match="cannot be read"):
        found.name(own)  # it has read none
    authority.revoke(keys, "device-4")
    assert found.name(own) == "device-3"
    with no_descriptors():
        assert found.name(own) == "device-3"
        with pytest.raises(UntrustedError, match="device-4 is revoked"):
            found.name(other)
    assert "the last one is used" in caplog.text


def test_an_older_list_does_not_bring_a_revoked_device_back(keys):
    older, found, own = (keys / "revoked.crl").read_bytes(), trust(keys), certificate(keys, "device-3")
    authority.revoke(keys, "device-3")
    for _ in range(2):
        with pytest.raises(UntrustedError, match="device-3 is revoked"):
            found.name(own)
        (keys / "revoked.crl").write_bytes(older)


def test_a_key_beside_anothers_certificate_is_refused(keys):
    authority.add(keys, "device-4")
    (keys / "device-4" / "tls.key").replace(keys / "device-3" / "tls.key")
    with pytest.raises(KeyFileError, match="does not belong to"):
        credentials.load(keys / "device-3")


@pytest.mark.parametrize("name", ["", "..", "a/b", "Device", "-x", "x-", "a" * 64, "device 3", "é", "a\n"])
def test_a_name_that_is_no_name_is_an_error(keys, name):
    with pytest.raises(KeyFileError, match="must be of small letters"):
        authority.add(keys, name)


def test_an_authority_is_made_once(keys):
    with pytest.raises(KeyFileError, match="is not empty"):
        authority.create(keys)
    with pytest.raises(KeyFileError, match="has keys already"):
        authority.add(keys, "device-3")
    with pytest.raises(KeyFileError, match="known are air, device-3"):
        authority.revoke(keys, "device-9")
    with pytest.raises(KeyFileError, match="days=0"):
        authority.rotate(keys, "device-3", days=0)
    with pytest.raises(KeyFileError, match="days=0"):
        authority.add(keys, "device-4", days=0)
    assert authority.add(keys, "device-4").is_dir()  # nothing was left half made


def test_files_written_in_secret_are_private_from_the_first_byte(tmp_path, monkeypatch):
    seen = []
    real = os.open

    def opened(path, flags, mode=0o777, **more):
        seen.append((flags & os.O_EXCL, mode))
        return real(path, flags, mode, **more)

    monkeypatch.setattr(os, "open", opened)
    secret.write(tmp_path / "key", b"x")
    assert seen == [(os.O_EXCL, 0o600)]
    assert [path.name for path in tmp_path.iterdir()] == ["key"]
