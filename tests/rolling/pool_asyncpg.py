"""asyncpg's pool, with its defaults but for the size."""

import asyncio
import os
import random
import sys

import asyncpg

BUSY, CALM = 8, 8
GAP = float(os.environ.get("GAP", "5")) / 1000


async def main():
    pool = await asyncpg.create_pool(
        host=os.environ["HOST"],
        port=int(os.environ["PORT"]),
        user=os.environ["USER_NAME"],
        password=os.environ["PASSWORD"],
        database=os.environ["DATABASE"],
        min_size=0,
        max_size=BUSY + CALM,
        statement_cache_size=100,
    )
    ends, counts, errors = asyncio.Event(), [0, 0], []

    async def work(number):
        while not ends.is_set():
            try:
                if counts[0] % 3 == 0:
                    async with pool.acquire() as connection, connection.transaction():
                        await connection.fetchval("SELECT 1")
                        await connection.fetchval("SELECT 2")
                else:
                    await pool.fetchval("SELECT $1::int", number)
                counts[0] += 1
            except Exception as error:  # noqa: BLE001
                counts[1] += 1
                errors.append(f"{type(error).__name__} {getattr(error, 'sqlstate', '')}: {error}")
            longest = GAP if number < BUSY else 3
            await asyncio.sleep(random.random() * longest)

    tasks = [asyncio.create_task(work(number)) for number in range(BUSY + CALM)]
    print("works", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    ends.set()
    await asyncio.gather(*tasks)
    await pool.close()
    print(f"asyncpg {asyncpg.__version__}: {counts[0]} done, {counts[1]} failed")
    for error in errors:
        print(f"error {error}")


asyncio.run(main())
