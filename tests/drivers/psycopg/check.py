"""psycopg 3: parameters, automatic preparation, pipelines, COPY, cancel, transactions, cursors, asyncio."""

import asyncio
import os
import sys
import threading
import time

import psycopg

MODE = os.environ["MODE"]
TABLE = f"psycopg_{MODE}"
CONNINFO = dict(
    host=os.environ["HOST"],
    port=os.environ["PORT"],
    user=os.environ["USER_NAME"],
    password=os.environ["PASSWORD"],
    dbname=os.environ["DATABASE"],
    connect_timeout=20,
)
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def connect(**more):
    return psycopg.connect(**CONNINFO, **more)


def one(connection, sql, *parameters):
    return connection.execute(sql, parameters).fetchone()[0]


@check
def query_and_parameters():
    with connect() as connection:
        assert one(connection, "SELECT 1") == 1
        sql = "SELECT %s::int, %s::text, %s::int[], %s::bytea"
        row = connection.execute(sql, (7, "é", [1, 2], b"\0\xff")).fetchone()
        assert row == (7, "é", [1, 2], b"\0\xff"), row


@check
def a_wrong_password_is_refused():
    try:
        psycopg.connect(**{**CONNINFO, "password": "wrong"})
    except psycopg.OperationalError as error:
        assert "failed" in str(error), error
    else:
        raise AssertionError("got in")


@check
def statements_are_prepared_after_five_times():
    connections = [connect(autocommit=True) for _ in range(8)]
    for round in range(12):
        for number, connection in enumerate(connections):
            assert one(connection, "SELECT %s::int + 1", number * round) == number * round + 1
    for connection in connections:
        connection.close()


@check
def more_statements_than_psycopg_keeps():
    with connect(autocommit=True) as connection:
        connection.prepare_threshold = 0
        connection.prepared_max = 5
        for round in range(3):
            for number in range(20):
                assert one(connection, f"SELECT %s::int + {number}", round) == round + number


@check
def binary_results():
    with connect() as connection:
        cursor = connection.cursor(binary=True)
        assert cursor.execute("SELECT 1::int8, 'x'::text, now()").fetchone()[:2] == (1, "x")


@check
def transactions_and_savepoints():
    with connect() as connection:
        connection.execute(f"DROP TABLE IF EXISTS {TABLE}")
        connection.execute(f"CREATE TABLE {TABLE} (id int PRIMARY KEY, name text)")
        connection.commit()
        with connection.transaction():
            connection.execute(f"INSERT INTO {TABLE} VALUES (1, 'one')")
            try:
                with connection.transaction():
                    connection.execute(f"INSERT INTO {TABLE} VALUES (1, 'twice')")
            except psycopg.errors.UniqueViolation:
                pass
            connection.execute(f"INSERT INTO {TABLE} VALUES (2, 'two')")
        assert one(connection, f"SELECT count(*) FROM {TABLE}") == 2
        connection.rollback()


@check
def errors_leave_the_connection_usable():
    with connect(autocommit=True) as connection:
        for _ in range(10):
            try:
                connection.execute("SELECT 1 / %s::int", (0,))
            except psycopg.errors.DivisionByZero as error:
                assert error.sqlstate == "22012"
            assert one(connection, "SELECT 2") == 2


@check
def pipelines():
    with connect(autocommit=True) as connection:
        for round in range(5):
            with connection.pipeline() as pipeline:
                cursors = [connection.execute("SELECT %s::int", (n,)) for n in range(100)]
                pipeline.sync()
                assert [cursor.fetchone()[0] for cursor in cursors] == list(range(100))
        try:
            with connection.pipeline():
                connection.execute("SELECT 1")
                connection.execute("SELECT 1/0")
                connection.execute("SELECT 3")
        except psycopg.errors.DivisionByZero:
            pass
        else:
            raise AssertionError("no error")
        assert one(connection, "SELECT 4") == 4


@check
def executemany():
    with connect() as connection:
        cursor = connection.cursor()
        cursor.execute(f"DROP TABLE IF EXISTS {TABLE}_many")
        cursor.execute(f"CREATE TABLE {TABLE}_many (id int)")
        cursor.executemany(f"INSERT INTO {TABLE}_many VALUES (%s)", [(n,) for n in range(500)])
        connection.commit()
        assert one(connection, f"SELECT sum(id) FROM {TABLE}_many") == sum(range(500))
        connection.execute(f"DROP TABLE {TABLE}_many")


@check
def copy_in_and_out():
    with connect() as connection:
        cursor = connection.cursor()
        cursor.execute(f"TRUNCATE {TABLE}")
        with cursor.copy(f"COPY {TABLE} FROM STDIN") as copy:
            for number in range(5000):
                copy.write_row((number, f"row {number}"))
        with cursor.copy(f"COPY {TABLE} TO STDOUT") as copy:
            rows = list(copy.rows())
        assert len(rows) == 5000 and rows[4999][1] == "row 4999"
        connection.commit()
        try:
            with cursor.copy(f"COPY {TABLE} FROM STDIN") as copy:
                copy.write_row(("no number", ""))
        except psycopg.errors.InvalidTextRepresentation:
            connection.rollback()
        try:
            with cursor.copy(f"COPY {TABLE} FROM STDIN"):
                raise KeyError("changed my mind")
        except KeyError:
            connection.rollback()
        assert one(connection, f"SELECT count(*) FROM {TABLE}") == 5000


def cancelled(cancel_of):
    with connect(autocommit=True) as connection:
        timer = threading.Timer(0.5, cancel_of(connection))
        timer.start()
        began = time.monotonic()
        try:
            connection.execute("SELECT pg_sleep(60)")
        except psycopg.errors.QueryCanceled:
            assert time.monotonic() - began < 50
        else:
            raise AssertionError("not cancelled")
        timer.join()
        assert one(connection, "SELECT 1") == 1


@check
def cancel():
    cancelled(lambda connection: connection.cancel)
    cancelled(lambda connection: connection.cancel_safe)


@check
def server_side_cursors():
    with connect() as connection:
        with connection.cursor(name="named") as cursor:
            cursor.execute("SELECT generate_series(1, 5000)")
            assert len(cursor.fetchmany(10)) == 10
            assert len(cursor.fetchall()) == 4990
        connection.commit()
        rows = list(connection.cursor().stream("SELECT generate_series(1, 2000)"))
        assert len(rows) == 2000


@check
def encodings_and_time_zones_are_the_connections_own():
    with connect(autocommit=True) as one_, connect(autocommit=True, options="-c TimeZone=Asia/Tokyo") as two:
        for _ in range(5):
            assert one(two, "SHOW TimeZone") == "Asia/Tokyo"
            assert one(one_, "SHOW TimeZone") == "UTC"
            assert two.info.timezone.key == "Asia/Tokyo"


@check
def notifications_in_session_mode():
    if MODE == "transaction":
        return
    with connect(autocommit=True) as listener, connect(autocommit=True) as speaker:
        listener.execute("LISTEN psycopg_news")
        speaker.execute("NOTIFY psycopg_news, 'hear'")
        for notify in listener.notifies(timeout=20, stop_after=1):
            assert notify.payload == "hear"
            return
        raise AssertionError("nothing heard")


@check
def many_threads():
    errors = []

    def work(number):
        try:
            with connect(autocommit=True) as connection:
                for round in range(20):
                    assert one(connection, "SELECT %s::text", f"{number}/{round}") == f"{number}/{round}"
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not errors, errors


@check
def asyncio_works():
    async def main():
        async with await psycopg.AsyncConnection.connect(**CONNINFO, autocommit=True) as connection:
            async with connection.pipeline():
                cursors = [await connection.execute("SELECT %s::int", (n,)) for n in range(20)]
            assert [(await cursor.fetchone())[0] for cursor in cursors] == list(range(20))

    asyncio.run(main())


def main():
    failed = 0
    for function in CHECKS:
        name = function.__name__.replace("_", " ")
        try:
            function()
            print(f"ok   {name}", flush=True)
        except Exception as error:
            failed += 1
            print(f"FAIL {name}: {type(error).__name__}: {error}", flush=True)
    with connect(autocommit=True) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {TABLE}")
    print(f"psycopg {psycopg.__version__}: {len(CHECKS)} checks, {failed} failed")
    sys.exit(1 if failed else 0)


main()
