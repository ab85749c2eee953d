"""A login with libpq 18, which asks a hook of ours for the token: libpq's path, a connection string, the token.

Prints what the hook was asked with, and the first value of a query, or the error.
"""

import ctypes
import sys

LIBPQ, CONNINFO, TOKEN = sys.argv[1:]
OAUTH_BEARER_TOKEN = 1
CONNECTION_OK = 0


class Request(ctypes.Structure):
    """PGoauthBearerRequest (libpq-fe.h)."""

    _fields_ = [
        ("openid_configuration", ctypes.c_char_p),
        ("scope", ctypes.c_char_p),
        ("async", ctypes.c_void_p),
        ("cleanup", ctypes.c_void_p),
        ("token", ctypes.c_char_p),
        ("user", ctypes.c_void_p),
    ]


libpq = ctypes.CDLL(LIBPQ)
libpq.PQconnectdb.restype = ctypes.c_void_p
libpq.PQexec.restype = ctypes.c_void_p
libpq.PQerrorMessage.restype = ctypes.c_char_p
libpq.PQgetvalue.restype = ctypes.c_char_p
Hook = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Request))


@Hook
def hook(kind, _connection, request):
    if kind != OAUTH_BEARER_TOKEN:
        return 0
    asked = request.contents
    print("asked", asked.openid_configuration.decode(), asked.scope.decode(), flush=True)
    request.contents.token = TOKEN.encode()
    return 1


libpq.PQsetAuthDataHook(hook)
connection = ctypes.c_void_p(libpq.PQconnectdb(CONNINFO.encode()))
if libpq.PQstatus(connection) != CONNECTION_OK:
    print("failed", libpq.PQerrorMessage(connection).decode())
else:
    result = ctypes.c_void_p(libpq.PQexec(connection, b"SELECT 6 * 7"))
    print("value", libpq.PQgetvalue(result, 0, 0).decode())
libpq.PQfinish(connection)
