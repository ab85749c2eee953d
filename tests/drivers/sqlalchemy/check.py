"""SQLAlchemy's engine, pool and ORM, with psycopg and with asyncpg: each check runs with both."""

import asyncio
import datetime
import ssl
import sys
import threading
from importlib.metadata import version

import sqlalchemy as sa
from sqlalchemy import exc, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.util import greenlet_spawn

import checks
from checks import AUTHORITY, MODE, NotThere, session_only

ASYNCPG = "postgresql+asyncpg"
PSYCOPG = "postgresql+psycopg"


class Base(DeclarativeBase):
    pass


class Item(Base):
    __tablename__ = f"sqlalchemy_{MODE}"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    name: Mapped[str | None]


class Numbered(Base):
    __tablename__ = f"sqlalchemy_{MODE}_numbered"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]


def engine_with(driver, query=None, password=checks.PASSWORD, **more):
    url = sa.URL.create(
        driver, checks.USER, password, checks.HOST, checks.PORT, checks.DATABASE, query=query or {}
    )
    return create_async_engine(url, **more) if driver == ASYNCPG else sa.create_engine(url, **more)


async def within(driver, work, **more):
    """`work` gets a synchronous engine with either driver: an asyncio engine passes its own to a greenlet."""
    engine = engine_with(driver, **more)
    if driver == PSYCOPG:
        try:
            work(engine)
        finally:
            engine.dispose()
        return
    try:
        async with asyncio.timeout(120):
            await greenlet_spawn(work, engine.sync_engine)
    finally:
        await engine.dispose()


def both(function):
    """The check, once with each driver."""

    async def run():
        for driver in (PSYCOPG, ASYNCPG):
            await within(driver, function)

    return run


def fails(state, work):
    try:
        work()
    except exc.DBAPIError as error:
        got = getattr(error.orig, "sqlstate", None)
        assert got == state, f"{got}: {error}"
        return
    raise AssertionError(f"no {state}")


@both
def check_login(engine):
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT 41 + 1")) == 42


async def check_wrong_password():
    for driver in (PSYCOPG, ASYNCPG):
        try:
            await within(driver, lambda engine: engine.connect(), password="wrong")
        except Exception as error:
            assert "authentication failed" in str(error), error
        else:
            raise AssertionError("got in")


@both
def check_crud(engine):
    with Session(engine) as session:
        session.add_all([Item(id=1, name="one"), Item(id=2, name="two")])
        session.commit()
        session.get(Item, 2).name = "zwei"
        session.commit()
        assert session.scalars(sa.select(Item.name).order_by(Item.id)).all() == ["one", "zwei"]
        assert session.execute(sa.delete(Item)).rowcount == 2
        session.commit()


@both
def check_types(engine):
    values = [7, "é \N{SNOWMAN}", b"\0\xff", [1, 2], datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)]
    kinds = [sa.Integer, sa.Text, sa.LargeBinary, sa.ARRAY(sa.Integer), sa.DateTime(timezone=True)]
    columns = [sa.cast(sa.literal(value, kind), kind) for value, kind in zip(values, kinds)]
    with engine.connect() as connection:
        assert list(connection.execute(sa.select(*columns, sa.null())).one()) == [*values, None]


@both
def check_prepared(engine):
    connections = [engine.connect() for _ in range(10)]
    for turn in range(12):
        for number, connection in enumerate(connections):
            assert connection.scalar(text("SELECT CAST(:n AS int) + 1"), {"n": number * turn}) == number * turn + 1
            connection.commit()
    [connection.close() for connection in connections]


@both
def check_many_statements(engine):
    with engine.connect() as connection:
        for turn in range(2):
            for number in range(150):
                assert connection.scalar(text(f"SELECT CAST(:n AS int) + {number}"), {"n": turn}) == turn + number


@both
def check_table_changed(engine):
    wide = f"{Item.__tablename__}_wide"
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(f"CREATE TABLE {wide} AS SELECT 1 AS a"))
        for _ in range(10):
            assert tuple(connection.execute(text(f"SELECT * FROM {wide}")).one()) == (1,)
        connection.execute(text(f"ALTER TABLE {wide} ADD b int DEFAULT 2"))
        try:  # The first may fail with 0A000, directly as well; the connection is then prepared anew.
            row = connection.execute(text(f"SELECT * FROM {wide}")).one()
        except exc.DBAPIError:
            connection.invalidate()
        connection.close()
    with engine.connect() as connection:
        row = connection.execute(text(f"SELECT * FROM {wide}")).one()
        assert tuple(row) == (1, 2)
        connection.execute(text(f"DROP TABLE {wide}"))
        connection.commit()


@both
def check_batch(engine):
    with Session(engine) as session:  # insertmanyvalues, with the keys returned
        rows = [Numbered(name=f"row {number}") for number in range(2000)]
        session.add_all(rows)
        session.flush()
        assert len({row.id for row in rows}) == 2000
        rows_ = [{"id": number, "name": "many"} for number in range(500)]
        session.connection().execute(text(f"INSERT INTO {Item.__tablename__} VALUES (:id, :name)"), rows_)
        session.rollback()


def check_pipeline():
    raise NotThere("SQLAlchemy has no pipelines")


@both
def check_pipeline_error(engine):
    rows = [{"id": 1, "name": "one"}, {"id": 1, "name": "twice"}]
    with engine.connect() as connection:
        insert = text(f"INSERT INTO {Item.__tablename__} VALUES (:id, :name)")
        fails("23505", lambda: connection.execute(insert, rows))
        connection.rollback()
        assert connection.scalar(text("SELECT 1")) == 1


def check_copy_in():
    raise NotThere("SQLAlchemy leaves COPY to the driver below it")


check_copy_out = check_copy_error = check_copy_in


def check_cancel():
    raise NotThere("SQLAlchemy leaves cancelling to the driver below it")


def check_timeout():
    raise NotThere("SQLAlchemy has no limit on a statement's time")


@both
def check_commit(engine):
    with Session(engine) as session, session.begin():
        session.merge(Item(id=1, name="one"))
    with Session(engine) as session:
        assert session.get(Item, 1).name == "one"


@both
def check_rollback(engine):
    with Session(engine) as session:
        session.execute(sa.delete(Item))
        session.rollback()
        assert session.scalar(sa.select(sa.func.count()).select_from(Item)) == 1


@both
def check_savepoint(engine):
    with Session(engine) as session:
        session.add(Item(id=2, name="two"))
        session.flush()

        def nested():
            with session.begin_nested():
                session.execute(sa.insert(Item).values(id=2, name="twice"))

        fails("23505", nested)
        assert session.scalar(sa.select(sa.func.count()).select_from(Item)) == 2
        session.rollback()


@both
def check_isolation(engine):
    options = {"isolation_level": "SERIALIZABLE", "postgresql_readonly": True}
    with engine.connect().execution_options(**options) as connection:
        assert connection.scalar(text("SHOW transaction_isolation")) == "serializable"
        fails("25006", lambda: connection.execute(sa.delete(Item)))
    with engine.connect() as connection:
        assert connection.scalar(text("SHOW transaction_isolation")) == "read committed"


@both
def check_unique_violation(engine):
    with engine.connect() as connection:
        fails("23505", lambda: connection.execute(sa.insert(Item).values(id=1)))
        connection.rollback()
        assert connection.scalar(text("SELECT 1")) == 1


@both
def check_syntax_error(engine):
    with engine.connect() as connection:
        fails("42601", lambda: connection.execute(text("SELEC 1")))
        connection.rollback()
        assert connection.scalar(text("SELECT 1")) == 1


@both
def check_error_in_a_transaction(engine):
    with engine.connect() as connection:
        fails("22012", lambda: connection.execute(text("SELECT 1/0")))
        fails("25P02", lambda: connection.execute(text("SELECT 1")))
        connection.rollback()
        assert connection.scalar(text("SELECT 1")) == 1


@both
def check_cursor(engine):
    with engine.connect().execution_options(stream_results=True, yield_per=100) as connection:
        assert sum(1 for _ in connection.execute(text("SELECT generate_series(1, 5000)"))) == 5000


@both
def check_large(engine):
    value = "é" * 10_000_000
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT CAST(:v AS text)"), {"v": value}) == value


def check_notice():
    raise NotThere("SQLAlchemy leaves notices to the driver below it")


def check_notify():
    raise NotThere("SQLAlchemy leaves LISTEN to the driver below it")


@both
def check_session_state(engine):
    session_only("what outlives a transaction (SET, temporary tables, advisory locks)")
    with engine.connect() as connection:
        connection.execute(text("SET work_mem = '7MB'"))
        connection.execute(text("CREATE TEMP TABLE kept AS SELECT 1 AS n"))
        connection.commit()
        assert connection.scalar(text("SHOW work_mem")) == "7MB"
        assert connection.scalar(text("SELECT n FROM kept")) == 1
        connection.execute(text("DROP TABLE kept"))
        connection.commit()


async def check_startup_parameters():
    def work(engine):
        for _ in range(5):
            with engine.connect() as connection:
                assert connection.scalar(text("SHOW application_name")) == "tokyo"

    await within(PSYCOPG, work, connect_args={"application_name": "tokyo"})
    await within(ASYNCPG, work, connect_args={"server_settings": {"application_name": "tokyo"}})


async def check_reconnect():
    def work(engine):
        with engine.connect() as connection, engine.connect() as other:
            pid = connection.scalar(text("SELECT pg_backend_pid()"))
            other.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
            try:
                connection.execute(text("SELECT 1"))
                raise AssertionError("survived")
            except exc.DBAPIError as error:
                assert error.connection_invalidated, error
        for _ in range(5):
            with engine.connect() as connection:
                assert connection.scalar(text("SELECT 1")) == 1

    await within(PSYCOPG, work)
    await within(ASYNCPG, work)


def check_pool():
    # The default pool: 5 connections, 10 more for a while; it rolls back connections that are returned.
    engine, errors = engine_with(PSYCOPG), []

    def work(number):
        try:
            for turn in range(20):
                with engine.connect() as connection:
                    value = f"{number}/{turn}"
                    assert connection.scalar(text("SELECT CAST(:v AS text)"), {"v": value}) == value
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    engine.dispose()
    assert not errors, errors


async def check_many_connections():
    engine = engine_with(ASYNCPG, poolclass=sa.pool.NullPool)

    async def work(number):
        for turn in range(3):
            async with engine.connect() as connection:
                assert await connection.scalar(text("SELECT CAST(:n AS int)"), {"n": number + turn}) == number + turn

    await asyncio.gather(*(work(number) for number in range(60)))


async def check_tls():
    if not AUTHORITY:
        raise NotThere("this PostgreSQL was built without TLS")

    def work(engine):
        with engine.connect() as connection:
            assert connection.scalar(text("SELECT 1")) == 1

    await within(PSYCOPG, work, query={"sslmode": "verify-full", "sslrootcert": AUTHORITY})
    await within(ASYNCPG, work, connect_args={"ssl": ssl.create_default_context(cafile=AUTHORITY)})


def fresh_tables():
    engine = engine_with(PSYCOPG)
    Base.metadata.drop_all(engine)
    Base.metadata.create_all(engine)
    engine.dispose()


names = ("SQLAlchemy", "psycopg", "asyncpg")
checks.run(", ".join(f"{name} {version(name)}" for name in names), sys.modules[__name__], fresh_tables)
