"""Who has waited for another's migration sees all that it made."""

import os
import threading

from conftest import ROOT


def query_text(name):
    with open(os.path.join(ROOT, "sql", "query", name + ".sql"), encoding="utf-8") as file:
        return file.read()


def test_a_session_that_looked_before_the_wait_looks_anew(empty_database, connect, wait_until):
    first, second, watch = (connect(empty_database) for _ in range(3))
    second.autocommit = watch.autocommit = True
    state, lock = query_text("migration_state"), query_text("migration_lock")
    with first.cursor() as maker, second.cursor() as waiter, watch.cursor() as watcher:
        waiter.execute(state)
        assert waiter.fetchone() == (False,)
        maker.execute(lock)
        maker.execute("create schema settle_data; create table settle_data.migration (number integer)")
        waiter.execute("begin")
        waiting = threading.Thread(target=waiter.execute, args=(lock,))
        waiting.start()

        def is_waiting():
            watcher.execute("select wait_event from pg_stat_activity where pid = %s", (second.info.backend_pid,))
            return watcher.fetchone() == ("advisory",)

        wait_until(is_waiting, "the second to wait for the first's lock")
        first.commit()
        waiting.join()
        waiter.execute(state)
        assert waiter.fetchone() == (True,), "what was missing before the wait is taken for missing after it"


def test_what_is_made_calls_nothing_of_public(settle, empty_database, psql):
    psql(empty_database, """
        create function public.jsonb_build_object(text, text, text, text) returns jsonb language plpgsql as
            $$ begin raise 'called as %', current_user; end $$;
        create function public.max(integer) returns integer language plpgsql as
            $$ begin raise 'called as %', current_user; end $$;
        create function public.hashtextextended(text, integer) returns bigint language plpgsql as
            $$ begin raise 'called as %', current_user; end $$""")
    assert settle("--db", empty_database, "migrate").code == 0
    assert psql(empty_database, "select count(*) > 0 from settle.metrics where labels ? 'kind'") == "t"
    assert settle("--db", empty_database, "list").code == 0
