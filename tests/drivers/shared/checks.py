"""Shared by all drivers of Python: where the server is, and how checks are named, run and reported.

A check is a function `check_<name of ../checks, with _ for blanks>`; README.md says what each name stands for.
"""

import asyncio
import inspect
import os
import sys
import traceback

MODE = os.environ["MODE"]
HOST = os.environ["HOST"]
PORT = int(os.environ["PORT"])
USER = os.environ["USER_NAME"]
PASSWORD = os.environ["PASSWORD"]
DATABASE = os.environ["DATABASE"]
AUTHORITY = os.environ.get("TLS_AUTHORITY", "")


class NotThere(Exception):
    """The driver, or a pool in this mode, does not have the checked feature; the text gives the reason."""


class Setting(Exception):
    """Raised at the end of a check that passed, but only with the setting that the text names."""


def session_only(what):
    if MODE == "transaction":
        raise NotThere(f"{what} needs session mode")


def run(version, module, setup=lambda: None):
    """Runs the checks of a module, in the order in which they are written, prints a line for each, and exits."""
    functions = {name: what for name, what in vars(module).items() if name.startswith("check_")}
    failed = 0
    setup()
    for name, function in functions.items():
        name = name.removeprefix("check_").replace("_", " ")
        try:
            result = function()
            if inspect.isawaitable(result):
                asyncio.run(result)
            print(f"ok   {name}", flush=True)
        except NotThere as reason:
            print(f"none {name}: {reason}", flush=True)
        except Setting as setting:
            print(f"set  {name}: {setting}", flush=True)
        except Exception as error:
            failed += 1
            print(f"FAIL {name}: {type(error).__name__}: {' '.join(str(error).split())}", flush=True)
            if os.environ.get("TRACE"):
                traceback.print_exc()
    print(f"{version}: {len(functions)} checks, {failed} failed")
    sys.exit(1 if failed else 0)
