"""psycopg's pool, with its defaults, or with CHECK its check of each connection that it hands out."""

import os
import random
import sys
import threading
import time

import psycopg
import psycopg_pool

BUSY, CALM = 8, 8
GAP = float(os.environ.get("GAP", "5")) / 1000

where = psycopg.conninfo.make_conninfo(
    host=os.environ["HOST"],
    port=os.environ["PORT"],
    user=os.environ["USER_NAME"],
    password=os.environ["PASSWORD"],
    dbname=os.environ["DATABASE"],
)
check = psycopg_pool.ConnectionPool.check_connection if os.environ.get("CHECK") else None
pool = psycopg_pool.ConnectionPool(where, min_size=1, max_size=BUSY + CALM, check=check, open=True)
ends, counts, errors, lock = threading.Event(), [0, 0], [], threading.Lock()


def work(number):
    while not ends.is_set():
        try:
            with pool.connection() as connection:
                connection.execute("SELECT 1")
                if number % 3 == 0:
                    connection.execute("SELECT 2")
            with lock:
                counts[0] += 1
        except Exception as error:  # noqa: BLE001
            with lock:
                counts[1] += 1
                errors.append(f"{type(error).__name__} {getattr(error, 'sqlstate', '')}: {str(error).splitlines()[0]}")
        time.sleep(random.random() * (GAP if number < BUSY else 3))


threads = [threading.Thread(target=work, args=(number,)) for number in range(BUSY + CALM)]
for thread in threads:
    thread.start()
print("works", flush=True)
sys.stdin.read()
ends.set()
for thread in threads:
    thread.join()
pool.close()
print(f"psycopg_pool {psycopg_pool.__version__}: {counts[0]} done, {counts[1]} failed")
for error in errors:
    print(f"error {error}")
