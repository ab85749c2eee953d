"""A queue as GoodJob's: a worker takes a job by an advisory lock of its session, which it holds while it works, in
transactions of their own; it is woken by LISTEN, and a dead worker's jobs are free because its session has ended.

A worker is a process of its own: `check.py worker NAME`. It says `ready` on its output, then the jobs that it holds.
"""

import os
import select
import signal
import subprocess
import sys
import threading
import time

import psycopg
import checks

KEY = "('x' || substr(md5('jobs-' || id::text), 1, 16))::bit(64)::bigint"
# The job whose lock is free, with the lock.
TAKE = f"""WITH free AS MATERIALIZED (SELECT id FROM jobs WHERE finished IS NULL ORDER BY id LIMIT 20)
    SELECT id, name FROM jobs WHERE id IN (SELECT id FROM free WHERE pg_try_advisory_lock({KEY}) LIMIT 1)"""
OWNS = f"""SELECT count(*) FROM jobs, pg_locks WHERE id = %s AND locktype = 'advisory' AND objsubid = 1
    AND pid = pg_backend_pid() AND (classid::bigint << 32 | objid::bigint) = {KEY}"""


def connect(**more):
    return psycopg.connect(
        host=checks.HOST, port=checks.PORT, user=checks.USER, password=checks.PASSWORD, dbname=checks.DATABASE,
        autocommit=True, **more,
    )


def value(text, *values):
    with connect() as one:
        row = one.execute(text, values).fetchone()
        return row and row[0]


def work():
    listener, worker = connect(application_name="listens"), connect(application_name="works")
    listener.execute("LISTEN jobs")
    print("ready", flush=True)
    while True:
        row = worker.execute(TAKE).fetchone()
        if row is None:
            # Nothing else wakes it.
            next(listener.notifies(timeout=3600, stop_after=1), None)
            continue
        job, name = row
        if worker.execute("SELECT id FROM jobs WHERE id = %s AND finished IS NULL", (job,)).fetchone():
            assert worker.execute(OWNS, (job,)).fetchone()[0] == 1, "the lock is not held"
            # Fails where another worker has the same job.
            worker.execute("INSERT INTO running VALUES (%s)", (job,))
            if name == "hangs":
                print("holds", flush=True)
                time.sleep(3600)
            worker.execute("DELETE FROM running WHERE id = %s", (job,))
            worker.execute("INSERT INTO done VALUES (%s)", (job,))
            worker.execute("UPDATE jobs SET finished = now() WHERE id = %s", (job,))
        free = worker.execute(f"SELECT pg_advisory_unlock({KEY}) FROM jobs WHERE id = %s", (job,)).fetchone()
        assert free[0] is True, "the lock was lost"


def says(worker):
    ready, _, _ = select.select([worker.stdout], [], [], 30)
    return ready and worker.stdout.readline()


class Workers:
    """Worker processes that are ready, killed at the end."""

    def __init__(self, count):
        command = [sys.executable, __file__, "worker"]
        self.all = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(count)]
        for one in self.all:
            assert says(one) == "ready\n"

    def __enter__(self):
        return self.all

    def __exit__(self, *_):
        for one in self.all:
            one.kill()
            one.wait()


def eventually(holds):
    until = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < until, "it has not come about"
        time.sleep(0.05)


def add(count, name="plain"):
    with connect() as one:
        with one.transaction():
            one.execute("INSERT INTO jobs (name) SELECT %s FROM generate_series(1, %s)", (name, count))
            one.execute("NOTIFY jobs")


def is_done():
    return value("SELECT count(*) FROM jobs WHERE finished IS NULL") == 0


def setup():
    with connect() as one:
        one.execute("CREATE TABLE jobs (id serial PRIMARY KEY, name text, finished timestamptz)")
        one.execute("CREATE TABLE running (id int PRIMARY KEY)")
        one.execute("CREATE TABLE done (id int)")


def check_three_workers_share_jobs():
    with Workers(3) as workers:
        add(150)
        eventually(is_done)
        assert all(worker.poll() is None for worker in workers), "a worker has failed"
    assert value("SELECT count(*) = count(DISTINCT id) AND count(*) = 150 FROM done")


def check_a_notification_alone_starts_a_job():
    with Workers(1):
        for _ in range(20):
            add(1)
            eventually(is_done)


def check_another_worker_takes_the_job_of_a_killed_one():
    with Workers(1) as (killed,):
        add(1, "hangs")
        assert says(killed) == "holds\n"
        assert value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 1
        assert value(TAKE) is None, "it is taken twice"
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        with connect() as one:
            one.execute("UPDATE jobs SET name = 'plain' WHERE finished IS NULL")
            one.execute("DELETE FROM running")
        eventually(lambda: value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0)
    with Workers(1):
        add(1)
        eventually(is_done)


def check_more_clients_wait_for_one_lock_than_there_are_servers():
    with connect() as one:
        one.execute("CREATE TABLE counter AS SELECT 0 AS value")

    def increment(errors):
        try:
            with connect() as one:
                for _ in range(5):
                    one.execute("SELECT pg_advisory_lock(42)")
                    seen = one.execute("SELECT value FROM counter").fetchone()[0]
                    one.execute("UPDATE counter SET value = %s", (seen + 1,))
                    assert one.execute("SELECT pg_advisory_unlock(42)").fetchone()[0]
        except Exception as error:
            errors.append(error)

    errors = []
    threads = [threading.Thread(target=increment, args=(errors,)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    assert value("SELECT value FROM counter") == 100


def check_a_leader_is_followed_by_another():
    leader, other = connect(), connect()
    assert leader.execute("SELECT pg_try_advisory_lock(7)").fetchone()[0]
    for turn in range(20):
        assert not other.execute("SELECT pg_try_advisory_lock(7)").fetchone()[0]
        assert leader.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()").fetchone()[0] == 1
    # Without a word, as a process that has died.
    os.close(leader.fileno())
    eventually(lambda: other.execute("SELECT pg_try_advisory_lock(7)").fetchone()[0])
    other.close()


def check_a_lock_is_held_as_often_as_it_was_taken():
    with connect() as one, connect() as other:
        for _ in range(3):
            one.execute("SELECT pg_advisory_lock(8)")
        for _ in range(3):
            assert not other.execute("SELECT pg_try_advisory_lock(8)").fetchone()[0]
            assert one.execute("SELECT pg_advisory_unlock(8)").fetchone()[0]
        assert other.execute("SELECT pg_try_advisory_lock(8)").fetchone()[0]


def check_a_function_takes_the_job_with_its_lock():
    with connect() as one:
        one.execute("CREATE TABLE tasks (id serial PRIMARY KEY, finished bool)")
        one.execute("""CREATE FUNCTION take_task() RETURNS int LANGUAGE plpgsql AS $$ DECLARE task int; BEGIN
            SELECT id INTO task FROM tasks WHERE finished IS NULL AND pg_try_advisory_lock(9, id) LIMIT 1;
            RETURN task; END $$""")
        one.execute("""CREATE FUNCTION end_task(task int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN
            UPDATE tasks SET finished = true WHERE id = task; RETURN pg_advisory_unlock(9, task); END $$""")
    workers = [connect() for _ in range(6)]
    # Nothing is there in most of its executions.
    for turn in range(40):
        if turn % 5 == 2:
            with connect() as one:
                one.execute("INSERT INTO tasks SELECT FROM generate_series(1, 6)")
        taken = [one.execute("SELECT take_task()").fetchone()[0] for one in workers]
        have = [task for task in taken if task is not None]
        assert len(set(have)) == len(have), f"taken twice: {have}"
        assert len(have) == (6 if turn % 5 == 2 else 0), f"turn {turn}: {taken}"
        for one, task in zip(workers, taken):
            if task is not None:
                assert one.execute("SELECT end_task(%s)", (task,)).fetchone()[0], f"turn {turn}: the lock was lost"
    for one in workers:
        one.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        work()
    else:
        checks.run("advisory locks", sys.modules[__name__], setup)
