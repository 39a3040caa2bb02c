"""The application server of a pinhead guest: a heap of a set size, a page, a transaction.

/app         touches a part of the heap, reads and changes the database, and shows a page
/app/plain   the same without a database
/app/heap    the heap's size
"""

import html
import os
import random
import threading

import psycopg2

PAGE_BYTES = 4096
# A request of a real server walks over some objects of its heap, not over all of it.
PAGES_A_REQUEST = 64
ACCOUNTS = 200_000

DB_HOST, DB_PORT = os.environ.get("PINHEAD_DB", "127.0.0.1:5432").rsplit(":", 1)
HEAP_MIB = int(os.environ.get("PINHEAD_HEAP_MIB", "16"))


def make_heap():
    """Memory whose pages are all different, and different from any other guest's."""
    heap = bytearray(HEAP_MIB << 20)
    own = os.urandom(16)
    for page in range(0, len(heap), PAGE_BYTES):
        heap[page : page + 24] = own + page.to_bytes(8, "little")
    return heap


HEAP = make_heap()
LOCAL = threading.local()


def touch():
    """Reads and changes pages here and there, and says how many changes they have seen."""
    pages = len(HEAP) // PAGE_BYTES
    changes = 0
    for _ in range(min(PAGES_A_REQUEST, pages)):
        at = random.randrange(pages) * PAGE_BYTES + 32
        HEAP[at] = (HEAP[at] + 1) & 255
        changes += HEAP[at]
    return changes


def password():
    """The farm's, which the host writes when this guest is up; without it, none is sent."""
    try:
        with open("/run/pinhead/database-password", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return None


def connection():
    """This thread's connection, which lasts over its requests."""
    if getattr(LOCAL, "connection", None) is None:
        LOCAL.connection = psycopg2.connect(
            host=DB_HOST,
            port=DB_PORT,
            dbname="pinhead",
            user="pinhead",
            password=password(),
            connect_timeout=10,
        )
    return LOCAL.connection


def transaction():
    """One of the TPC-B kind: a change, a look, and a line in the history."""
    account, delta = random.randint(1, ACCOUNTS), random.randint(-5000, 5000)
    with connection() as session, session.cursor() as cursor:
        cursor.execute(
            "UPDATE pgbench_accounts SET abalance = abalance + %s WHERE aid = %s"
            " RETURNING abalance",
            (delta, account),
        )
        (balance,) = cursor.fetchone()
        cursor.execute(
            "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 1, %s, %s, now())",
            (account, delta),
        )
        first = random.randint(1, ACCOUNTS - 20)
        cursor.execute(
            "SELECT aid, abalance FROM pgbench_accounts WHERE aid BETWEEN %s AND %s",
            (first, first + 19),
        )
        return account, balance, cursor.fetchall()


def page(title, rows):
    lines = "".join(
        f"<tr><td>{html.escape(str(name))}</td><td>{html.escape(str(value))}</td></tr>\n"
        for name, value in rows
    )
    return f"<!DOCTYPE html><title>{title}</title>\n<table>\n{lines}</table>\n".encode()


def answer(path):
    if path == "/app/heap":
        return "200 OK", page("Heap", [("heap MiB", HEAP_MIB)])
    rows = [("changes", touch())]
    if path == "/app/plain":
        return "200 OK", page("Plain", rows)
    if path != "/app":
        return "404 Not Found", page("No such page", [])
    try:
        account, balance, others = transaction()
    except psycopg2.Error as error:
        # A broken connection is given up; the next request makes a new one.
        LOCAL.connection = None
        return "503 Service Unavailable", page("No database", [("why", error)])
    rows += [("account", account), ("balance", balance)] + others
    return "200 OK", page("Account", rows)


def application(environment, start_response):
    status, body = answer(environment.get("PATH_INFO", ""))
    start_response(status, [("Content-Type", "text/html"), ("Content-Length", str(len(body)))])
    return [body]
