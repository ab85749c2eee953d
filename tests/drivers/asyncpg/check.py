"""asyncpg: every query is prepared and kept, its pool resets returned connections, binary formats throughout."""

import asyncio
import datetime
import io
import ssl
import sys

import asyncpg

import checks
from checks import AUTHORITY, MODE, NotThere, session_only

TABLE = f"asyncpg_{MODE}"
WHERE = dict(
    host=checks.HOST, port=checks.PORT, user=checks.USER, password=checks.PASSWORD, database=checks.DATABASE, timeout=30
)


class connected:
    """A connection for a block."""

    def __init__(self, **more):
        self.more = more

    async def __aenter__(self):
        self.connection = await asyncpg.connect(**{**WHERE, **self.more})
        return self.connection

    async def __aexit__(self, *_):
        await self.connection.close(timeout=20)


async def fails(error, work):
    try:
        await work
    except error as raised:
        return raised
    raise AssertionError(f"no {error.__name__}")


async def fresh_table():
    async with connected() as connection:
        await connection.execute(f"DROP TABLE IF EXISTS {TABLE}; CREATE TABLE {TABLE} (id int PRIMARY KEY, name text)")


async def check_login():
    async with connected() as connection:
        assert await connection.fetchval("SELECT 41 + 1") == 42


async def check_wrong_password():
    await fails(asyncpg.InvalidPasswordError, asyncpg.connect(**{**WHERE, "password": "wrong"}))


async def check_crud():
    async with connected() as connection:
        assert await connection.execute(f"INSERT INTO {TABLE} VALUES (1, 'one'), (2, 'two')") == "INSERT 0 2"
        assert await connection.execute(f"UPDATE {TABLE} SET name = $1 WHERE id = $2", "zwei", 2) == "UPDATE 1"
        rows = await connection.fetch(f"SELECT * FROM {TABLE} ORDER BY id")
        assert [tuple(row) for row in rows] == [(1, "one"), (2, "zwei")]
        assert await connection.execute(f"DELETE FROM {TABLE}") == "DELETE 2"


async def check_types():
    values = (7, "é \N{SNOWMAN}", b"\0\xff", None, [1, 2], datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC))
    async with connected() as connection:
        row = await connection.fetchrow(
            "SELECT $1::int, $2::text, $3::bytea, $4::text, $5::int[], $6::timestamptz", *values
        )
        assert tuple(row) == values


async def check_prepared():
    connections = [await asyncpg.connect(**WHERE) for _ in range(10)]
    statements = []
    for number, connection in enumerate(connections):
        statements.append(await connection.prepare("SELECT $1::int * 2"))
        assert await statements[number].fetchval(number) == number * 2
    for turn in range(10):
        for number, connection in enumerate(connections):
            assert await connection.fetchval("SELECT $1::int + 1", number * turn) == number * turn + 1
            assert await statements[number].fetchval(number) == number * 2
    for connection in connections:
        await connection.close()


async def check_many_statements():
    async with connected() as connection:
        for turn in range(2):
            for number in range(150):  # It keeps 100.
                assert await connection.fetchval(f"SELECT $1::int + {number}", turn) == turn + number


async def check_table_changed():
    async with connected() as connection:
        await connection.execute(f"CREATE TABLE {TABLE}_wide AS SELECT 1 AS a")
        for _ in range(3):
            assert tuple(await connection.fetchrow(f"SELECT * FROM {TABLE}_wide")) == (1,)
        await connection.execute(f"ALTER TABLE {TABLE}_wide ADD b int DEFAULT 2")
        assert tuple(await connection.fetchrow(f"SELECT * FROM {TABLE}_wide")) == (1, 2)
        await connection.execute(f"DROP TABLE {TABLE}_wide")


async def check_batch():
    async with connected() as connection:
        await connection.executemany(f"INSERT INTO {TABLE} VALUES ($1, $2)", [(n, f"row {n}") for n in range(500)])
        assert await connection.fetchval(f"SELECT count(*) FROM {TABLE}") == 500
        await connection.execute(f"TRUNCATE {TABLE}")


async def check_pipeline():
    raise NotThere("asyncpg has one request at a time on a connection")


async def check_pipeline_error():
    async with connected() as connection:
        rows = [(1, "one"), (2, "two"), (1, "again")]
        await fails(
            asyncpg.UniqueViolationError, connection.executemany(f"INSERT INTO {TABLE} VALUES ($1, $2)", rows)
        )
        assert await connection.fetchval(f"SELECT count(*) FROM {TABLE}") == 0


async def check_copy_in():
    async with connected() as connection:
        records = [(number, f"row {number}") for number in range(5000)]
        assert await connection.copy_records_to_table(TABLE, records=records) == "COPY 5000"


async def check_copy_out():
    async with connected() as connection:
        out = io.BytesIO()
        assert await connection.copy_from_table(TABLE, output=out) == "COPY 5000"
        assert out.getvalue().endswith(b"4999\trow 4999\n")


async def check_copy_error():
    async def given_up():
        yield b"9000\tnever\n"
        raise KeyError("changed my mind")

    async with connected() as connection:
        bad = io.BytesIO(b"no number\tx\n")
        await fails(asyncpg.InvalidTextRepresentationError, connection.copy_to_table(TABLE, source=bad))
        await fails(KeyError, connection.copy_to_table(TABLE, source=given_up()))
        assert await connection.fetchval(f"SELECT count(*) FROM {TABLE}") == 5000
        await connection.execute(f"TRUNCATE {TABLE}")


async def check_cancel():
    async with connected() as connection:
        for _ in range(2):
            query = asyncio.create_task(connection.execute("SELECT pg_sleep(60)"))
            await asyncio.sleep(0.7)
            query.cancel()  # The driver sends a cancel request.
            await fails(asyncio.CancelledError, query)
            assert await connection.fetchval("SELECT 1") == 1


async def check_timeout():
    async with connected() as connection:
        await fails(TimeoutError, connection.execute("SELECT pg_sleep(60)", timeout=0.7))
        assert await connection.fetchval("SELECT 1") == 1


async def check_commit():
    async with connected() as connection:
        async with connection.transaction():
            await connection.execute(f"INSERT INTO {TABLE} VALUES (1, 'one')")
        assert await connection.fetchval(f"SELECT name FROM {TABLE} WHERE id = 1") == "one"


async def check_rollback():
    async with connected() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(f"DELETE FROM {TABLE}")
        await transaction.rollback()
        assert await connection.fetchval(f"SELECT count(*) FROM {TABLE}") == 1


async def check_savepoint():
    async with connected() as connection, connection.transaction():
        await connection.execute(f"INSERT INTO {TABLE} VALUES (2, 'two')")
        try:
            async with connection.transaction():
                await connection.execute(f"INSERT INTO {TABLE} VALUES (2, 'twice')")
        except asyncpg.UniqueViolationError:
            pass
        assert await connection.fetchval(f"SELECT count(*) FROM {TABLE}") == 2


async def check_isolation():
    async with connected() as connection, connection.transaction(isolation="serializable", readonly=True):
        assert await connection.fetchval("SHOW transaction_isolation") == "serializable"
        assert await connection.fetchval("SHOW transaction_read_only") == "on"


async def check_unique_violation():
    async with connected() as connection:
        again = connection.execute(f"INSERT INTO {TABLE} VALUES ($1, 'again')", 1)
        await fails(asyncpg.UniqueViolationError, again)
        assert await connection.fetchval("SELECT 1") == 1


async def check_syntax_error():
    async with connected() as connection:
        await fails(asyncpg.PostgresSyntaxError, connection.fetch("SELEC 1"))
        assert await connection.fetchval("SELECT 1") == 1


async def check_error_in_a_transaction():
    async with connected() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await fails(asyncpg.DivisionByZeroError, connection.fetchval("SELECT 1/0"))
        await fails(asyncpg.InFailedSQLTransactionError, connection.fetchval("SELECT 1"))
        await transaction.rollback()
        assert await connection.fetchval("SELECT 1") == 1


async def check_cursor():
    async with connected() as connection, connection.transaction():
        cursor = await connection.cursor("SELECT generate_series(1, 5000)")
        assert len(await cursor.fetch(10)) == 10
        assert len([row async for row in connection.cursor("SELECT generate_series(1, 3000)", prefetch=100)]) == 3000


async def check_large():
    value = "é" * 10_000_000
    async with connected() as connection:
        assert await connection.fetchval("SELECT $1::text", value) == value


async def check_notice():
    heard = []
    async with connected() as connection:
        connection.add_log_listener(lambda _, message: heard.append(message.message))
        await connection.execute("DO $$ BEGIN RAISE NOTICE 'noted'; END $$")
    assert heard == ["noted"], heard


async def check_notify():
    session_only("LISTEN")
    heard = asyncio.get_running_loop().create_future()
    async with connected() as listener, connected() as speaker:
        await listener.add_listener(TABLE, lambda *words: heard.set_result(words[3]))
        await speaker.execute(f"NOTIFY {TABLE}, 'hear'")
        assert await asyncio.wait_for(heard, 20) == "hear"
        await listener.reset()


async def check_session_state():
    session_only("what outlives a transaction (SET, temporary tables, advisory locks)")
    async with connected() as connection, connected() as other:
        await connection.execute("SET work_mem = '7MB'; CREATE TEMP TABLE kept AS SELECT 1 AS n")
        await connection.execute("SELECT pg_advisory_lock(4712)")
        assert await connection.fetchval("SHOW work_mem") == "7MB"
        assert await connection.fetchval("SELECT n FROM kept") == 1
        assert await other.fetchval("SELECT pg_try_advisory_lock(4712)") is False


async def check_startup_parameters():
    settings = {"application_name": "tokyo", "TimeZone": "Asia/Tokyo"}
    async with connected() as plain, connected(server_settings=settings) as tokyo:
        for _ in range(5):
            assert await tokyo.fetchval("SHOW TimeZone") == "Asia/Tokyo"
            assert await tokyo.fetchval("SHOW application_name") == "tokyo"
            assert await plain.fetchval("SHOW application_name") == ""


async def check_reconnect():
    async with asyncpg.create_pool(**WHERE, min_size=1, max_size=2) as pool, connected() as other:

        async def killed():
            async with pool.acquire() as connection, connection.transaction():
                pid = await connection.fetchval("SELECT pg_backend_pid()")
                await other.fetchval("SELECT pg_terminate_backend($1)", pid)
                await connection.fetchval("SELECT 1")

        await fails((asyncpg.PostgresError, asyncpg.InterfaceError, OSError), killed())
        for _ in range(5):
            assert await pool.fetchval("SELECT 1") == 1


async def check_pool():
    async with asyncpg.create_pool(**WHERE) as pool:
        answers = await asyncio.gather(*(pool.fetchval("SELECT $1::int", number) for number in range(300)))
        assert answers == list(range(300))


async def check_many_connections():
    async def work(number):
        async with connected() as connection:
            for turn in range(10):
                assert await connection.fetchval("SELECT $1::int", number + turn) == number + turn

    await asyncio.gather(*(work(number) for number in range(60)))


async def check_tls():
    if not AUTHORITY:
        raise NotThere("this PostgreSQL was built without TLS")
    async with connected(ssl=ssl.create_default_context(cafile=AUTHORITY)) as connection:
        assert connection._transport.get_extra_info("ssl_object").version() == "TLSv1.3"
        assert await connection.fetchval("SELECT 1") == 1


# Checks beyond those of all drivers.


async def check_types_of_one_s_own():
    async with connected() as connection:
        await connection.execute(f"DROP TYPE IF EXISTS {TABLE}_mood; CREATE TYPE {TABLE}_mood AS ENUM ('good', 'bad')")
        for _ in range(3):  # The driver looks the type up with queries of its own.
            assert await connection.fetchval(f"SELECT $1::{TABLE}_mood[]", ["bad"]) == ["bad"]
        await connection.execute(f"DROP TYPE {TABLE}_mood")


async def check_prepare_now_use_later():
    if MODE in ("transaction", "auto"):
        raise NotThere("prepare() ends with a Flush, not a Sync: its server is held until the statement is first used")
    connections = [await asyncpg.connect(**WHERE) for _ in range(10)]
    statements = [await connection.prepare("SELECT $1::int * 2") for connection in connections]
    for number, statement in enumerate(statements):
        assert await statement.fetchval(number) == number * 2
    for connection in connections:
        await connection.close()


asyncio.run(fresh_table())
checks.run(f"asyncpg {asyncpg.__version__}", sys.modules[__name__])
