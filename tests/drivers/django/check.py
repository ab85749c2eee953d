"""Django's ORM on psycopg 3, with its default settings: one connection per thread, server-side cursors for iterator()."""

import datetime
import sys
import threading
from importlib.metadata import version

import django
from django.conf import settings

import checks
from checks import AUTHORITY, MODE, NotThere, session_only

NAME = f"django_{MODE}"


def database(**options):
    return {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": checks.HOST,
        "PORT": checks.PORT,
        "USER": checks.USER,
        "PASSWORD": checks.PASSWORD,
        "NAME": checks.DATABASE,
        **options,
    }


settings.configure(
    USE_TZ=True,
    DATABASES={
        "default": database(),
        "kept": database(CONN_MAX_AGE=600, CONN_HEALTH_CHECKS=True),
        "wrong": database(PASSWORD="wrong"),
        "tokyo": database(TIME_ZONE="Asia/Tokyo", OPTIONS={"application_name": "tokyo"}),
        "serializable": database(OPTIONS={"isolation_level": 4}),
        "tls": database(OPTIONS={"sslmode": "verify-full", "sslrootcert": AUTHORITY}),
        "unnamed": database(DISABLE_SERVER_SIDE_CURSORS=True),
    },
)
django.setup()

from django.db import DataError, IntegrityError, OperationalError, ProgrammingError, connections, models, transaction
from django.db.utils import InternalError

connection = connections["default"]


class Item(models.Model):
    id = models.IntegerField(primary_key=True)
    name = models.TextField(null=True)
    data = models.BinaryField(null=True)
    at = models.DateTimeField(null=True)
    tags = models.JSONField(null=True)

    class Meta:
        app_label = NAME
        db_table = NAME


def fails(error, work):
    try:
        with transaction.atomic():
            work()
    except error:
        return
    raise AssertionError(f"no {error.__name__}")


def value(sql, *values, using="default"):
    with connections[using].cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchone()[0]


def fresh_table():
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {NAME}")
    with connection.schema_editor() as editor:
        editor.create_model(Item)


def check_login():
    assert value("SELECT 41 + 1") == 42


def check_wrong_password():
    fails(OperationalError, lambda: value("SELECT 1", using="wrong"))


def check_crud():
    Item.objects.create(id=1, name="one")
    Item.objects.create(id=2, name="two")
    assert Item.objects.filter(id=2).update(name="zwei") == 1
    assert list(Item.objects.order_by("id").values_list("name", flat=True)) == ["one", "zwei"]
    assert Item.objects.all().delete()[0] == 2


def check_types():
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    Item.objects.create(id=7, name="é \N{SNOWMAN}", data=b"\0\xff", at=at, tags={"a": [1, None]})
    item = Item.objects.get(id=7)
    assert (item.name, bytes(item.data), item.at, item.tags) == ("é \N{SNOWMAN}", b"\0\xff", at, {"a": [1, None]})
    item.delete()


def check_prepared():
    raise NotThere("Django has psycopg prepare nothing, unless server_side_binding and prepare_threshold are set")


check_many_statements = check_table_changed = check_prepared


def check_batch():
    Item.objects.bulk_create([Item(id=number, name=f"row {number}") for number in range(1000)], batch_size=100)
    items = list(Item.objects.filter(id__lt=10))
    for item in items:
        item.name = "changed"
    assert Item.objects.bulk_update(items, ["name"]) == 10
    upserted = Item.objects.bulk_create(
        [Item(id=5, name="again")], update_conflicts=True, update_fields=["name"], unique_fields=["id"]
    )
    assert upserted and Item.objects.get(id=5).name == "again"


def check_pipeline():
    raise NotThere("Django has no pipelines")


def check_pipeline_error():
    rows = [Item(id=number) for number in (5000, 5001, 5)]
    fails(IntegrityError, lambda: Item.objects.bulk_create(rows, batch_size=1))
    assert Item.objects.count() == 1000


def check_copy_in():
    raise NotThere("Django leaves COPY to psycopg")


check_copy_out = check_copy_error = check_copy_in


def check_cancel():
    raise NotThere("Django leaves cancelling to psycopg")


def check_timeout():
    raise NotThere("Django has no limit on a statement's time")


def check_commit():
    with transaction.atomic():
        Item.objects.create(id=2001)
    connection.close()
    assert Item.objects.filter(id=2001).exists()


def check_rollback():
    class ChangedMyMind(Exception):
        pass

    try:
        with transaction.atomic():
            Item.objects.all().delete()
            raise ChangedMyMind
    except ChangedMyMind:
        pass
    assert Item.objects.count() == 1001


def check_savepoint():
    with transaction.atomic():
        Item.objects.create(id=2002)
        fails(IntegrityError, lambda: Item.objects.create(id=2002))
        assert Item.objects.count() == 1002
        transaction.set_rollback(True)


def check_isolation():
    with transaction.atomic(using="serializable"):
        assert value("SHOW transaction_isolation", using="serializable") == "serializable"
    assert value("SHOW transaction_isolation") == "read committed"
    with transaction.atomic():
        assert Item.objects.select_for_update().filter(id=1).get().id == 1


def check_unique_violation():
    fails(IntegrityError, lambda: Item.objects.create(id=1))
    assert value("SELECT 1") == 1


def check_syntax_error():
    fails(ProgrammingError, lambda: value("SELEC 1"))
    assert value("SELECT 1") == 1


def check_error_in_a_transaction():
    def work():
        try:
            value("SELECT 1/0")
        except DataError:
            pass
        value("SELECT 1")

    fails(InternalError, work)
    assert value("SELECT 1") == 1


def check_cursor():
    """iterator() outside a transaction is a cursor WITH HOLD, which lives in one session."""
    if MODE != "transaction":
        assert sum(1 for _ in Item.objects.iterator(chunk_size=10)) == 1001
        return
    with transaction.atomic():
        assert sum(1 for _ in Item.objects.iterator(chunk_size=10)) == 1001
    assert sum(1 for _ in Item.objects.using("unnamed").iterator(chunk_size=10)) == 1001
    raise checks.Setting("DISABLE_SERVER_SIDE_CURSORS = True, or iterator() within atomic()")


def check_large():
    text = "é" * 10_000_000
    assert value("SELECT %s::text", text) == text


def check_notice():
    raise NotThere("Django leaves notices to psycopg")


def check_notify():
    raise NotThere("Django leaves LISTEN to psycopg")


def check_session_state():
    session_only("what outlives a transaction (SET, temporary tables, advisory locks)")
    with connection.cursor() as cursor:
        cursor.execute("SET work_mem = '7MB'")
        cursor.execute("CREATE TEMP TABLE kept AS SELECT 1 AS n")
    assert value("SHOW work_mem") == "7MB" and value("SELECT n FROM kept") == 1
    connection.close()


def check_startup_parameters():
    for _ in range(5):
        assert value("SHOW TimeZone", using="tokyo") == "Asia/Tokyo"
        assert value("SHOW application_name", using="tokyo") == "tokyo"
        assert value("SHOW application_name") == "" and value("SHOW TimeZone") == "UTC"


def check_reconnect():
    """Django closes a broken connection at the end of a request, and health checks do so before a request begins."""

    def work():
        with transaction.atomic(using="kept"):
            pid = value("SELECT pg_backend_pid()", using="kept")
            assert value("SELECT pg_terminate_backend(%s)", pid)
            value("SELECT 1", using="kept")

    fails(OperationalError, work)
    connections["kept"].close_if_unusable_or_obsolete()
    for _ in range(5):
        assert value("SELECT 1", using="kept") == 1


def check_pool():
    """CONN_MAX_AGE: a connection is kept by its thread from request to request."""
    for _ in range(20):
        connections["kept"].close_if_unusable_or_obsolete()
        assert Item.objects.using("kept").filter(id__lt=50).count() == 50
    assert connections["kept"].connection is not None


def check_many_connections():
    errors = []

    def work(number):
        try:
            for turn in range(5):
                assert Item.objects.get(id=number * turn).id == number * turn
        except Exception as error:
            errors.append(error)
        finally:
            # This thread's own connection.
            connections["default"].close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(60)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not errors, errors


def check_tls():
    if not AUTHORITY:
        raise NotThere("this PostgreSQL was built without TLS")
    assert value("SELECT 1", using="tls") == 1


checks.run(f"Django {django.__version__}, psycopg {version('psycopg')}", sys.modules[__name__], fresh_table)
