"""The files and functions of the engine that a query and a login go through: what one must read to follow them.

    scripts/call-path.sh [--list]

Run by gdb on a debug build of `weir-bench own`, whose client and server are played in memory. A function counts once,
where it is called first. A return is a step, in that order, into a file that had been left.
"""

import os
import re

import gdb

# The limits that a change must keep: files and functions of a query, files and returns of a login.
QUERY_FILES, QUERY_FUNCTIONS, LOGIN_FILES, LOGIN_RETURNS = 22, 75, 24, 25

CRATES = os.environ.get("CALL_PATH_CRATES", "weir_engine").split()
LOG_IN, ROUND = ("weir_bench::own::world::World::" + name for name in ("log_in", "round"))

calls = []


class Call(gdb.Breakpoint):
    """Records the first call of one function, or of one copy of a generic one, and does not stop the program."""

    def __init__(self, address, call):
        super().__init__(f"*{address}", internal=True)
        self.silent = True
        self.call = call

    def stop(self):
        if self.call not in calls:
            calls.append(self.call)
        self.enabled = False
        return False


def file_and_function(symbol):
    """`weir_engine::link::relay::<impl weir_engine::client::Slot>::feed::h0123` is `feed` in `link/relay`."""
    names = re.sub(r"::h[0-9a-f]{16}$", "", symbol)
    # A method of a trait is where its type is.
    names = re.sub(r"^<(?:dyn )?([\w:]+)[^>]*(?:<[^>]*>[^>]*)* as [^>]*(?:<[^>]*>)*>", r"\1", names)
    names = re.sub(r"<.*>", "Impl", names)
    names = names.split("::")
    if names[0] not in CRATES or any("{" in name for name in names):
        return None
    modules = [name for name in names[:-1] if name[:1].islower()]
    return "/".join(modules), names[-1]


def symbols(pattern):
    """The address and the name of each function that matches."""
    for line in gdb.execute(f"info functions {pattern}", to_string=True).splitlines():
        if match := re.match(r"(0x[0-9a-f]+)  (\S.*)", line):
            yield match[1], match[2]


def functions():
    """The address of each function of the engine, its file and its name. Closures belong to the function around them."""
    named = ((address, file_and_function(symbol)) for address, symbol in symbols("weir_"))
    return [(address, call) for address, call in named if call]


def run_to(function):
    address, _ = next(symbols(f"{function}::h"))
    gdb.Breakpoint(f"*{address}", temporary=True)
    gdb.execute("continue", to_string=True)


def record(what):
    """The functions that are called until the function `what` has returned, in the order of their first calls."""
    run_to(what)
    calls.clear()
    for call in watched:
        call.enabled = True
    gdb.execute("finish", to_string=True)
    for call in watched:
        call.enabled = False
    return list(calls)


def returns(path):
    files = [file for file, _ in path]
    steps = [file for before, file in zip([None, *files], files) if file != before]
    return len(steps) - len(set(steps))


def report(title, path):
    files = {file for file, _ in path}
    print(f"{title}: {len(files)} files, {len(path)} functions, {returns(path)} returns to a file that had been left")
    if os.environ.get("CALL_PATH_LIST"):
        for file, name in path:
            print(f"    {file:40} {name}")
    return len(files), len(path), returns(path)


gdb.execute("set pagination off")
gdb.execute("set confirm off")
gdb.execute("set language rust")
gdb.execute("set debuginfod enabled off", to_string=True)
gdb.execute("starti", to_string=True)
watched = [Call(*function) for function in functions()]
# The first client's server logs in, too.
record(LOG_IN)
login, query = record(LOG_IN), record(ROUND)
gdb.execute("kill", to_string=True)
login_files, _, login_returns = report("a login", login)
query_files, query_functions, _ = report("a query", query)
within = (
    query_files <= QUERY_FILES
    and query_functions <= QUERY_FUNCTIONS
    and login_files <= LOGIN_FILES
    and login_returns <= LOGIN_RETURNS
)
gdb.execute(f"quit {0 if within and login and query else 1}")
