"""Certificates of an authority of the test's own."""

import subprocess

from tests.integration import services


def make_certificates(directory):
    """Write ca.pem, and server.pem and server.key for the name ``localhost``."""
    services.need("openssl")

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    openssl("req", "-x509", *key, "-subj", "/CN=test authority", "-keyout", "ca.key", "-out", "ca.pem")
    openssl(
        *["req", "-x509", *key, "-CA", "ca.pem", "-CAkey", "ca.key", "-subj", "/CN=localhost"],
        *["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=CA:FALSE"],
        *["-keyout", "server.key", "-out", "server.pem"],
    )
