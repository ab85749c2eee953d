"""Run by gdb for scripts/call-path.sh: counts the files and functions of the engine that a query and a login go through.

A function counts once, where it is called first; closures belong to the function around them, and a derived one, as of
`Default`, has no text that anybody reads. A return is a step, in that order, into a file that had been left.
"""

import os
import pathlib
import re

import gdb

# The figures that a change must not raise: files and functions of a query, files and returns of a login.
QUERY_FILES, QUERY_FUNCTIONS, LOGIN_FILES, LOGIN_RETURNS = 20, 75, 26, 28

CRATE = "weir_engine"
SOURCES = pathlib.Path("crates/engine/src")
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
    names = re.sub(r"<.*>", "Impl", names).split("::")
    if names[0] != CRATE or any("{" in name for name in names):
        return None
    modules = [name for name in names[1:-1] if name[:1].islower()]
    return "/".join(modules), names[-1]


def is_derived(symbol):
    """Whether the source has no text of this method of a trait of the standard library."""
    method = re.match(r"<weir_engine::([\w:]+)[^>]* as core::[\w:]*::(\w+)", symbol)
    if not method:
        return False
    *modules, name = method[1].split("::")
    file = SOURCES.joinpath(*modules)
    texts = [path.read_text() for path in (file.with_suffix(".rs"), file / "mod.rs") if path.exists()]
    return not any(re.search(rf"\b{method[2]}\b.* for {name}\b", text) for text in texts)


def symbols(pattern):
    """The address and the name of each function that matches."""
    for line in gdb.execute(f"info functions {pattern}", to_string=True).splitlines():
        if match := re.match(r"(0x[0-9a-f]+)  (\S.*)", line):
            yield match[1], match[2]


def record(function):
    """The functions that are called until this one returns, in the order of their first calls."""
    address, _ = next(symbols(f"{function}::h"))
    gdb.Breakpoint(f"*{address}", temporary=True)
    gdb.execute("continue", to_string=True)
    calls.clear()
    for call in watched:
        call.enabled = True
    gdb.execute("finish", to_string=True)
    for call in watched:
        call.enabled = False
    return list(calls)


def report(title, path):
    """Prints what was counted; returns the numbers of files, functions and returns."""
    files = [file for file, _ in path]
    steps = [file for before, file in zip([None, *files], files) if file != before]
    returns = len(steps) - len(set(files))
    print(f"{title}: {len(set(files))} files, {len(path)} functions, {returns} returns to a file that had been left")
    if os.environ.get("CALL_PATH_LIST"):
        for file, name in path:
            print(f"    {file:40} {name}")
    return len(set(files)), len(path), returns


for setting in ("pagination off", "confirm off", "language rust", "debuginfod enabled off"):
    gdb.execute(f"set {setting}", to_string=True)
gdb.execute("starti", to_string=True)
named = [(address, file_and_function(symbol)) for address, symbol in symbols(CRATE) if not is_derived(symbol)]
watched = [Call(address, call) for address, call in named if call]
# The first client's server logs in, too.
record(LOG_IN)
login, query = record(LOG_IN), record(ROUND)
gdb.execute("kill", to_string=True)
login_files, _, login_returns = report("a login", login)
query_files, query_functions, _ = report("a query", query)
within = (
    0 < query_files <= QUERY_FILES
    and query_functions <= QUERY_FUNCTIONS
    and 0 < login_files <= LOGIN_FILES
    and login_returns <= LOGIN_RETURNS
)
if not within:
    print(f"more than the {QUERY_FILES} files and {QUERY_FUNCTIONS} functions of a query, or the {LOGIN_FILES} files and")
    print(f"{LOGIN_RETURNS} returns of a login, that the code had: see scripts/call_path.py")
gdb.execute(f"quit {0 if within else 1}")
