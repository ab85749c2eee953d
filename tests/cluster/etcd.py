#!/usr/bin/env python3
"""Weir and a real etcd with TLS, client certificates and users, on this machine: `etcd.py WEIR`.

A node with the right authority, certificate, user and password is a member, and can apply a configuration. One without a part of that is
not, and says why. A login outlasts a restart of etcd, which forgets tokens, and a change of etcd's users.
"""

import base64, json, os, ssl, subprocess, time, urllib.error, urllib.request

import common
from common import WEIR, check, folder, free_port, log_of, script, start, wait_for, weir, within

PASSWORD = "the-password-of-weir"
OF_ROOT = "the-password-of-root"


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, cwd=folder, capture_output=True)


def authority(name):
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
            f"/O={name}", "-keyout", f"{name}.key", "-out", f"{name}.crt")


def certificate(name, signer, subject, *extensions):
    with open(f"{folder}/{name}.ext", "w") as to:
        to.write("\n".join(extensions) + "\n")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", subject, "-keyout", f"{name}.key",
            "-out", f"{name}.csr")
    openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{signer}.crt", "-CAkey", f"{signer}.key", "-CAcreateserial", "-days", "2",
            "-extfile", f"{name}.ext", "-out", f"{name}.crt")


class Etcd(common.Etcd):
    def __init__(self):
        super().__init__("--cert-file", f"{folder}/server.crt", "--key-file", f"{folder}/server.key", "--client-cert-auth",
                         "--trusted-ca-file", f"{folder}/ca.crt", scheme="https")

    def ask(self, path, by=None, **body):
        """An operator's request to etcd's gateway for JSON, as a user of etcd."""
        context = ssl.create_default_context(cafile=f"{folder}/ca.crt")
        context.load_cert_chain(f"{folder}/operator.crt", f"{folder}/operator.key")
        head = {"Authorization": self.ask("auth/authenticate", name=by, password=OF_ROOT)["token"]} if by else {}
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}/v3/{path}", json.dumps(body).encode(), head)
        try:
            return json.load(urllib.request.urlopen(request, timeout=10, context=context))
        except urllib.error.HTTPError as error:
            raise SystemExit(f"etcd refuses {path}: {error.read()}")


def encoded(text):
    return base64.b64encode(text.encode()).decode()


class Node:
    """A process with these lines in its [cluster]."""

    def __init__(self, name, etcd, *lines, host="127.0.0.1", serves=True):
        self.name, self.port, self.web = name, free_port(), free_port()
        self.file = f"{folder}/{name}.toml"
        with open(self.file, "w") as file:
            file.write("\n".join([
                "[listen]", 'address = "127.0.0.1"', f"port = {self.port}", "[web]", 'address = "127.0.0.1"', f"port = {self.web}",
                "[cluster]", f'etcd = ["https://{host}:{etcd.port}"]', 'name = "secure"', f'node = "{name}"', 'lease = "4s"', *lines, ""]))
        if serves:
            self.process = start(name, WEIR, "serve", self.file)
            wait_for(self.port)
            wait_for(self.web)

    def member_state(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.web}/api/v1/cluster", timeout=10) as answer:
            return json.load(answer)["member_state"]

    def stop(self):
        self.process.terminate()
        return self.process.wait(30)

    def log(self):
        return log_of(self.name)


CA = 'ca_file = "ca.crt"'
OWN = ['cert_file = "weir.crt"', 'key_file = "weir.key"']


def refused(etcd, what, lines, words, **more):
    """A command with these lines in [cluster] fails, and says why."""
    node = Node("refused", etcd, *lines, serves=False, **more)
    code, out, error = weir(node.file)
    check(f"{what}: refused, with the reason", code == 1 and any(word in error for word in words) and PASSWORD not in error, (code, out, error))


def run():
    for name in ("ca", "other-ca"):
        authority(name)
    # etcd's gateway for JSON is a client of its own server, with the server's certificate.
    certificate("server", "ca", "/O=etcd", "subjectAltName=IP:127.0.0.1", "extendedKeyUsage=serverAuth,clientAuth")
    # It refuses certificates with a common name when etcd has users.
    for name, subject in (("weir", "/O=weir"), ("operator", "/O=operator"), ("named", "/CN=weir")):
        certificate(name, "ca", subject, "extendedKeyUsage=clientAuth")
    certificate("stranger", "other-ca", "/O=weir", "extendedKeyUsage=clientAuth")
    etcd = Etcd()
    print(f"an etcd with TLS and client certificates runs in {folder}", flush=True)
    one = Node("one", etcd, CA, *OWN)
    within("a node with a certificate is a member", 10, lambda: one.member_state() == "member", one.log)
    refused(etcd, "without a certificate", [CA], ["cert_file"])
    refused(etcd, "with a certificate of another authority", [CA, 'cert_file = "stranger.crt"', 'key_file = "stranger.key"'],
            ["cert_file"])
    refused(etcd, "with another authority for etcd's certificate", ['ca_file = "other-ca.crt"', *OWN], ["UnknownIssuer"])
    refused(etcd, "with the operating system's authorities", OWN, ["UnknownIssuer"])
    refused(etcd, "at a name that is not in etcd's certificate", [CA, *OWN], ["not valid for", "NotValidForName"], host="localhost")
    refused(etcd, "with a key of another certificate", [CA, 'cert_file = "weir.crt"', 'key_file = "operator.key"'], ["is not the key of the certificate"])
    refused(etcd, "with a file that is missing", [CA, 'cert_file = "none.crt"', 'key_file = "weir.key"'], ["none.crt"])

    print("etcd has users", flush=True)
    with open(f"{folder}/password", "w") as to:
        to.write(PASSWORD + "\n")
    with open(f"{folder}/wrong", "w") as to:
        to.write("another\n")
    for path in ("password", "wrong"):
        os.chmod(f"{folder}/{path}", 0o600)
    etcd.ask("auth/user/add", name="root", password=OF_ROOT)
    etcd.ask("auth/role/add", name="root")
    etcd.ask("auth/user/grant", user="root", role="root")
    etcd.ask("auth/role/add", name="weir")
    # "0" is the byte after "/": all keys with the prefix.
    below = {"permType": "READWRITE", "key": encoded("/weir/secure/"), "range_end": encoded("/weir/secure0")}
    etcd.ask("auth/role/grant", name="weir", perm=below)
    etcd.ask("auth/user/add", name="weir", password=PASSWORD)
    etcd.ask("auth/user/grant", user="weir", role="weir")
    etcd.ask("auth/user/add", name="guest", password=PASSWORD)
    etcd.ask("auth/enable")
    within("the node without a user loses its lease", 20, lambda: one.member_state() != "member", one.log)
    check("its log says why", "user name is empty" in one.log(), one.log())
    one.process.kill()
    one.process.wait()
    login = ['user = "weir"', 'password_file = "password"']
    two = Node("two", etcd, CA, *OWN, *login)
    within("a node with user and password is a member", 10, lambda: two.member_state() == "member", two.log)
    refused(etcd, "with another password", [CA, *OWN, 'user = "weir"', 'password_file = "wrong"'], ["authentication failed"])
    refused(etcd, "as a user without rights", [CA, *OWN, 'user = "guest"', 'password_file = "password"'], ["permission denied"])
    refused(etcd, "with a user, and without a certificate", [CA, *login], ["cert_file"])
    refused(etcd, "with a common name in the certificate", [CA, 'cert_file = "named.crt"', 'key_file = "named.key"', *login], ["without a common name"])
    with open(f"{folder}/pools.toml", "w") as to:
        to.write('[auth]\ntype = "trust"\n[auth.users]\napp = ""\n[pools.app]\nhost = "127.0.0.1"\nport = 9\nsize = 4\n')
    code, out, error = weir("apply", f"{folder}/pools.toml", "--node", two.file)
    check("a configuration is applied", code == 0 and "node two runs it" in out, (code, out, error))
    three = Node("three", etcd, CA, *OWN, *login)
    within("another node has it", 10, lambda: three.member_state() == "member" and "revision" in weir(two.file)[1], three.log)
    found = etcd.ask("kv/range", by="root", key="AA==", range_end="AA==", keys_only=True).get("kvs", [])
    keys = [base64.b64decode(entry["key"]).decode() for entry in found]
    check("all keys are below the prefix that the role has", keys and all(key.startswith("/weir/secure/") for key in keys), keys)

    print("etcd forgets its tokens", flush=True)
    etcd.restart()
    time.sleep(5)
    for node in (two, three):
        within(f"{node.name} has logged in again", 15, lambda: node.member_state() == "member", node.log)
    etcd.ask("auth/user/add", by="root", name="another", password="one")
    etcd.ask("auth/user/revoke", by="root", name="weir", role="weir")
    within("a node whose user has no rights any more loses its lease", 20, lambda: two.member_state() != "member", two.log)
    check("its log says so", "permission denied" in two.log(), two.log())
    etcd.ask("auth/user/grant", by="root", user="weir", role="weir")
    for node in (two, three):
        within(f"{node.name} is a member again, without a restart", 15, lambda: node.member_state() == "member", node.log)
    check("both end in order", (two.stop(), three.stop()) == (0, 0))
    check("no password is in a log", all(PASSWORD not in log_of(name) for name in ("one", "two", "three", "etcd")))


script(run)
