"""psycopg 3 on libpq 18: automatic preparation, pipelines, COPY, server-side cursors, threads, asyncio, its pool."""

import asyncio
import datetime
import sys
import threading

import psycopg
from psycopg import errors, sql
from psycopg_pool import AsyncConnectionPool, ConnectionPool

import checks
from checks import AUTHORITY, MODE, NotThere, session_only

TABLE = f"psycopg_{MODE}"
WHERE = dict(host=checks.HOST, port=checks.PORT, user=checks.USER, password=checks.PASSWORD, dbname=checks.DATABASE)


def connect(**more):
    return psycopg.connect(**{**WHERE, **more})


def auto(**more):
    return connect(autocommit=True, **more)


def one(connection, query, *values):
    return connection.execute(query, values or None).fetchone()[0]


def fails(error, work):
    try:
        work()
    except error as raised:
        return raised
    raise AssertionError(f"no {error.__name__}")


def fresh_table():
    with auto() as connection:
        connection.execute(f"DROP TABLE IF EXISTS {TABLE}")
        connection.execute(f"CREATE TABLE {TABLE} (id int PRIMARY KEY, name text)")


def check_login():
    with connect() as connection:
        assert one(connection, "SELECT 41 + 1") == 42
        assert connection.pgconn.used_password


def check_wrong_password():
    error = fails(psycopg.OperationalError, lambda: connect(password="wrong"))
    assert "authentication failed" in str(error), error


def check_crud():
    with connect() as connection:
        assert connection.execute(f"INSERT INTO {TABLE} VALUES (1, 'one'), (2, 'two')").rowcount == 2
        assert connection.execute(f"UPDATE {TABLE} SET name = %s WHERE id = %s", ("zwei", 2)).rowcount == 1
        assert connection.execute(f"SELECT * FROM {TABLE} ORDER BY id").fetchall() == [(1, "one"), (2, "zwei")]
        assert connection.execute(f"DELETE FROM {TABLE}").rowcount == 2


def check_types():
    values = (7, "é \N{SNOWMAN}", b"\0\xff", None, [1, 2], datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC))
    query = "SELECT %s::int, %s::text, %s::bytea, %s::text, %s::int[], %s::timestamptz"
    with connect() as connection:
        for binary in (False, True):
            assert connection.cursor(binary=binary).execute(query, values).fetchone() == values


def check_prepared():
    connections = [auto() for _ in range(10)]
    for turn in range(12):  # From the sixth time on a statement is prepared.
        for number, connection in enumerate(connections):
            assert one(connection, "SELECT %s::int + 1", number * turn) == number * turn + 1
    assert len(connections[0]._prepared._names) == 1, "nothing was prepared"
    [connection.close() for connection in connections]


def check_many_statements():
    with auto() as connection:
        for turn in range(2):
            for number in range(150):  # It keeps 100.
                query = sql.SQL("SELECT %s::int + {}").format(number)
                assert connection.execute(query, (turn,), prepare=True).fetchone()[0] == turn + number


def check_table_changed():
    with auto() as connection:
        connection.execute(f"CREATE TABLE {TABLE}_wide AS SELECT 1 AS a")
        for _ in range(10):
            assert connection.execute(f"SELECT * FROM {TABLE}_wide").fetchone() == (1,)
        connection.execute(f"ALTER TABLE {TABLE}_wide ADD b int DEFAULT 2")
        try:
            row = connection.execute(f"SELECT * FROM {TABLE}_wide").fetchone()
        except errors.FeatureNotSupported:  # Directly as well: the driver leaves this to the program.
            row = connection.execute(f"SELECT * FROM {TABLE}_wide", prepare=False).fetchone()
        assert row == (1, 2)
        connection.execute(f"DROP TABLE {TABLE}_wide")


def check_batch():
    with connect() as connection:
        cursor = connection.cursor()
        cursor.executemany(f"INSERT INTO {TABLE} VALUES (%s, %s)", [(n, f"row {n}") for n in range(500)])
        assert cursor.rowcount == 500
        connection.rollback()


def check_pipeline():
    with auto() as connection, connection.pipeline():
        cursors = [connection.execute("SELECT %s::int", (number,)) for number in range(300)]
        assert [cursor.fetchone()[0] for cursor in cursors] == list(range(300))


def check_pipeline_error():
    with auto() as connection:

        def broken():
            with connection.pipeline():
                for query in ("SELECT 1", "SELECT 1/0", "SELECT 3"):
                    connection.execute(query)

        fails(errors.DivisionByZero, broken)
        assert one(connection, "SELECT 4") == 4


def check_copy_in():
    with connect() as connection:
        with connection.cursor().copy(f"COPY {TABLE} FROM STDIN") as copy:
            [copy.write_row((number, f"row {number}")) for number in range(5000)]
        assert one(connection, f"SELECT count(*) FROM {TABLE}") == 5000


def check_copy_out():
    with connect() as connection:
        with connection.cursor().copy(f"COPY {TABLE} TO STDOUT (FORMAT binary)") as copy:
            copy.set_types(["int4", "text"])
            rows = list(copy.rows())
        assert len(rows) == 5000 and rows[4999] == (4999, "row 4999")


def check_copy_error():
    def copied(work):
        with connection.cursor().copy(f"COPY {TABLE} FROM STDIN") as copy:
            work(copy)

    def given_up(copy):
        copy.write_row((9000, "never"))
        raise KeyError("changed my mind")

    with auto() as connection:
        fails(errors.InvalidTextRepresentation, lambda: copied(lambda copy: copy.write_row(("no number", ""))))
        fails(KeyError, lambda: copied(given_up))
        assert one(connection, f"SELECT count(*) FROM {TABLE}") == 5000
        connection.execute(f"TRUNCATE {TABLE}")


def check_cancel():
    with auto() as connection:
        for cancel in (connection.cancel, connection.cancel_safe):
            timer = threading.Timer(0.7, cancel)
            timer.start()
            fails(errors.QueryCanceled, lambda: connection.execute("SELECT pg_sleep(60)"))
            timer.join()
            assert one(connection, "SELECT 1") == 1


def check_timeout():
    raise NotThere("psycopg leaves the time of statements to statement_timeout")


def check_commit():
    with connect() as connection, connection.transaction():
        connection.execute(f"INSERT INTO {TABLE} VALUES (1, 'one')")
    with connect() as connection:
        assert one(connection, f"SELECT name FROM {TABLE} WHERE id = 1") == "one"


def check_rollback():
    with connect() as connection:
        connection.execute(f"DELETE FROM {TABLE}")
        connection.rollback()
        assert one(connection, f"SELECT count(*) FROM {TABLE}") == 1


def check_savepoint():
    with connect() as connection, connection.transaction():
        connection.execute(f"INSERT INTO {TABLE} VALUES (2, 'two')")

        def inner():
            with connection.transaction():
                connection.execute(f"INSERT INTO {TABLE} VALUES (2, 'twice')")

        fails(errors.UniqueViolation, inner)
        assert one(connection, f"SELECT count(*) FROM {TABLE}") == 2


def check_isolation():
    with connect() as connection:
        connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        connection.read_only = True
        assert one(connection, "SHOW transaction_isolation") == "serializable"
        fails(errors.ReadOnlySqlTransaction, lambda: connection.execute(f"DELETE FROM {TABLE}"))


def check_unique_violation():
    with auto() as connection:
        fails(errors.UniqueViolation, lambda: connection.execute(f"INSERT INTO {TABLE} VALUES (1, 'again')"))
        assert one(connection, "SELECT 1") == 1


def check_syntax_error():
    with auto() as connection:
        fails(errors.SyntaxError, lambda: connection.execute("SELEC 1"))
        assert one(connection, "SELECT 1") == 1


def check_error_in_a_transaction():
    with connect() as connection:
        fails(errors.DivisionByZero, lambda: connection.execute("SELECT 1/0"))
        fails(errors.InFailedSqlTransaction, lambda: connection.execute("SELECT 1"))
        connection.rollback()
        assert one(connection, "SELECT 1") == 1


def check_cursor():
    with connect() as connection:
        with connection.cursor(name="named") as cursor:
            cursor.execute("SELECT generate_series(1, 5000)")
            assert len(cursor.fetchmany(10)) == 10 and len(cursor.fetchall()) == 4990
        assert len(list(connection.cursor().stream("SELECT generate_series(1, 2000)"))) == 2000


def check_large():
    value = "é" * 10_000_000
    with connect() as connection:
        assert one(connection, "SELECT %s::text", value) == value


def check_notice():
    heard = []
    with auto() as connection:
        connection.add_notice_handler(lambda diagnostic: heard.append(diagnostic.message_primary))
        connection.execute("DO $$ BEGIN RAISE NOTICE 'noted'; END $$")
    assert heard == ["noted"], heard


def check_notify():
    session_only("LISTEN")
    with auto() as listener, auto() as speaker:
        listener.execute(f"LISTEN {TABLE}")
        speaker.execute(f"NOTIFY {TABLE}, 'hear'")
        assert [notify.payload for notify in listener.notifies(timeout=20, stop_after=1)] == ["hear"]


def check_session_state():
    session_only("what outlives a transaction (SET, temporary tables, advisory locks)")
    with auto() as connection, auto() as other:
        connection.execute("SET work_mem = '7MB'")
        connection.execute("CREATE TEMP TABLE kept AS SELECT 1 AS n")
        connection.execute("SELECT pg_advisory_lock(4711)")
        assert one(connection, "SHOW work_mem") == "7MB" and one(connection, "SELECT n FROM kept") == 1
        assert one(other, "SELECT pg_try_advisory_lock(4711)") is False


def check_startup_parameters():
    with auto() as plain, auto(options="-c TimeZone=Asia/Tokyo", application_name="tokyo") as tokyo:
        for _ in range(5):
            assert one(tokyo, "SHOW TimeZone") == tokyo.info.timezone.key == "Asia/Tokyo"
            assert one(tokyo, "SHOW application_name") == "tokyo"
            assert one(plain, "SHOW application_name") == "" and one(plain, "SHOW TimeZone") != "Asia/Tokyo"


def kill_server_of(connection):
    pid = one(connection, "SELECT pg_backend_pid()")
    with auto() as other:
        assert one(other, "SELECT pg_terminate_backend(%s)", pid)


def check_reconnect():
    with ConnectionPool(kwargs=WHERE, min_size=1, max_size=2) as pool:

        def killed():
            with pool.connection() as connection:
                kill_server_of(connection)
                connection.execute("SELECT 1")

        fails(psycopg.OperationalError, killed)
        for _ in range(5):
            with pool.connection() as connection:
                assert one(connection, "SELECT 1") == 1


def check_pool():
    with ConnectionPool(kwargs=WHERE) as pool:
        errors_ = []

        def work(number):
            try:
                for turn in range(20):
                    with pool.connection() as connection:
                        assert one(connection, "SELECT %s::text", f"{number}/{turn}") == f"{number}/{turn}"
            except Exception as error:
                errors_.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert not errors_, errors_


async def check_many_connections():
    async def work(number):
        async with await psycopg.AsyncConnection.connect(**WHERE, autocommit=True) as connection:
            for turn in range(10):
                cursor = await connection.execute("SELECT %s::int, pg_sleep(0.005)", (number + turn,))
                assert (await cursor.fetchone())[0] == number + turn

    await asyncio.gather(*(work(number) for number in range(60)))


def check_tls():
    if not AUTHORITY:
        raise NotThere("this PostgreSQL was built without TLS")
    with connect(sslmode="verify-full", sslrootcert=AUTHORITY, channel_binding="require") as connection:
        assert connection.pgconn.ssl_in_use and one(connection, "SELECT 1") == 1


# Checks beyond those of all drivers.


async def check_asyncio_pool_and_pipeline():
    async with AsyncConnectionPool(kwargs=WHERE, open=False) as pool:

        async def work(number):
            async with pool.connection() as connection, connection.pipeline():
                cursors = [await connection.execute("SELECT %s::int", (number + n,)) for n in range(20)]
                assert [(await cursor.fetchone())[0] for cursor in cursors] == list(range(number, number + 20))

        await asyncio.gather(*(work(number) for number in range(20)))


def check_protocol_3_2():
    with auto(max_protocol_version="latest") as connection:
        assert one(connection, "SELECT 1") == 1
        timer = threading.Timer(0.7, connection.cancel_safe)  # A key of 3.2 may be longer.
        timer.start()
        fails(errors.QueryCanceled, lambda: connection.execute("SELECT pg_sleep(60)"))
        timer.join()


libpq = psycopg.pq.version()
checks.run(f"psycopg {psycopg.__version__}, libpq {libpq // 10000}.{libpq % 10000}", sys.modules[__name__], fresh_table)
