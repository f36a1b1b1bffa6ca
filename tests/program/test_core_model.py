"""Random lives of one operation, against a model that fits on a page: every answer and every state in between agree."""

import dataclasses
import random

SEED = 20260101
LIVES = 2000
ACTS = 12
MAX_ATTEMPTS = 4
KIND = '{"effect": "keyed", "retry": {"max_attempts": 4}, "review": {"rerun_failed": true}}'
FINAL = ("succeeded", "failed", "cancelled")


@dataclasses.dataclass
class Model:  # pylint: disable=too-many-instance-attributes
    """What is known of one key. Methods are named as the functions, and return the outcome."""

    status: str = None
    request: str = None
    token: int = 0
    highest: int = 0
    attempts: int = 0
    sent: bool = False
    lapsed: bool = False
    due: bool = False
    lost: bool = False  # pending because a loss was noticed, and nobody has taken over or decided since
    forced: str = None  # the trigger that the next execution has whoever starts it
    cancel_asked: bool = False
    decided: bool = False
    undone_first: bool = False
    undo: bool = False
    ended: tuple = None  # the holder's own last end, which it may repeat
    executions: dict = dataclasses.field(default_factory=dict)

    def _record(self, trigger, outcome):
        if trigger in ("schedule", "manual"):
            self.highest = max(1, self.highest) + 1
            self.executions[self.highest] = (trigger, outcome)

    def _start(self, trigger):
        trigger = self.forced or trigger
        self.token = self.highest = 1 if self.token == 0 and self.highest == 0 else max(1, self.highest) + 1
        self.status, self.attempts = "running", self.attempts + 1
        self.sent = self.lapsed = self.due = self.lost = self.cancel_asked = False
        self.forced = self.ended = None
        self.executions[self.token] = (trigger, None)
        return "started"

    def _close(self, outcome):
        self.executions[self.token] = (self.executions[self.token][0], outcome)

    def _notice_loss(self):
        if self.status != "running" or not self.lapsed:
            return False
        self.lapsed = False
        if self.sent:
            self.status = "unknown"
            self._close("unknown")
            return True
        self._close("lost")
        if self.cancel_asked:
            self.status = "cancelled"
        elif self.attempts >= MAX_ATTEMPTS:
            self.status = "review"
        else:
            self.status, self.due, self.lost, self.forced = "pending", True, True, "takeover"
        return True

    def _reopen(self):
        self.status, self.due, self.lost, self.forced, self.ended = "pending", True, False, "manual", None
        self.decided = True

    def begin(self, request, trigger="call"):
        if self.status is None:
            self.request = request
            return self._start(trigger)
        if not self.undone_first:
            if request != self.request:
                self._record(trigger, "conflict")
                return "conflict"
            self._notice_loss()
            if self.status == "pending" and self.due:
                return self._start(trigger)
        outcome = {"review": "frozen", "unknown": "unknown", "running": "in_progress", "pending": "in_progress"}.get(
            self.status, "replayed")
        self._record(trigger, "in_progress" if outcome == "unknown" else outcome)
        return outcome

    def _may_report(self):
        return self.status in ("running", "unknown") or (self.status == "pending" and self.lost)

    def _end(self, token, status, word, said):
        if self.status is None:
            return "ST006"
        if token != self.token or not self._may_report():
            return word if token == self.token and self.ended == (status, said) and self.status == status else "stale"
        self.status, self.ended, self.lapsed, self.due, self.lost, self.forced = status, (status, said), False, False, False, None
        self.cancel_asked = False
        self._close("succeeded" if status == "succeeded" else "refused")
        return word

    def complete(self, token, said):
        return self._end(token, "succeeded", "completed", said)

    def refuse(self, token, said):
        return self._end(token, "failed", "refused", said)

    def fail(self, token, error_class):
        if self.status is None:
            return "ST006"
        if token != self.token or self.status == "unknown" or not self._may_report():
            return "stale"
        self.lapsed = self.due = self.lost = False
        self.forced = None
        if error_class == "unknown":
            self.status, outcome = "unknown", "unknown"
        elif self.cancel_asked:
            self.status, outcome = "cancelled", "cancelled"
        elif error_class == "defect" or self.attempts >= MAX_ATTEMPTS:
            self.status, outcome = "review", "review"
        else:
            self.status, outcome = "pending", "retry"
        self._close(outcome if outcome in ("unknown", "cancelled") else "failed")
        return outcome

    def hold(self, token, word):
        if self.status is None:
            return "ST006"
        if token != self.token or self.status != "running" or self.lapsed:
            return "stale"
        self.sent = self.sent or word == "marked"
        return word

    def sweep(self):
        return 1 if self._notice_loss() else 0

    def lapse(self):
        self.lapsed = self.status == "running"

    def make_due(self):
        self.due = self.status == "pending"

    def rerun(self):
        if self.status is None:
            return "ST006"
        self._notice_loss()
        if self.status in ("review", "failed"):
            self._reopen()
            return "done"
        if self.status in FINAL:
            self._record("manual", "replayed")
        return "refused"

    def begin_rerun(self, request):
        if self.status in ("review", "failed") and request == self.request:
            self._reopen()
        return self.begin(request, "manual")

    def decide(self, decision):
        if self.status is None:
            return "ST006"
        self._notice_loss()
        if self.status not in ("review", "unknown"):
            return "already_decided" if self.status in FINAL or self.decided else "refused"
        if decision == "compensate":
            return "refused"
        self.decided = True
        if decision == "rerun":
            self._reopen()
        else:
            self.status, self.ended = decision, None
        return "done"

    def cancel(self):
        if self.status is None:
            return "ST006"
        self._notice_loss()
        if self.status in ("pending", "review"):
            self.status, self.decided, self.due, self.lost, self.forced = "cancelled", True, False, False, None
            return "done"
        if self.status == "running":
            self.cancel_asked = self.decided = True
            return "requested"
        return "refused" if self.status == "unknown" else "already_decided"

    def compensate(self):
        if self.status is None:
            self.status, self.undone_first = "cancelled", True
        self._notice_loss()
        if self.undone_first:
            return "not_applied"
        if self.status == "unknown":
            return "unknown"
        if self.status != "succeeded":
            return "not_compensable"
        outcome, self.undo = "in_progress" if self.undo else "started", True
        return outcome


def acts(chance, model):
    """One random act: (the statement, its values, what the model does)."""
    token = chance.choice([model.token, model.token, model.token, model.token - 1, model.token + 1, model.highest])
    token = max(1, token)
    said = chance.choice(["a", "b"])
    request = '{"a": 1}' if chance.random() < 0.85 else '{"a": 2}'
    trigger = chance.choice(["call", "call", "call", "schedule", "manual", "event"])
    error_class = chance.choice(["transient", "transient", "unknown", "defect"])
    decision = chance.choice(["rerun", "succeeded", "failed", "cancelled", "compensate"])
    return chance.choice([
        *[("(settle.begin_operation(%(key)s, 'model', %(request)s, trigger => %(trigger)s, lease => '1 h')).outcome",
           lambda: model.begin(request, trigger))] * 5,
        *[("(settle.complete(%(key)s, %(token)s, %(said)s)).outcome", lambda: model.complete(token, said))] * 2,
        ("(settle.refuse(%(key)s, %(token)s, %(said)s)).outcome", lambda: model.refuse(token, said)),
        *[("(settle.fail(%(key)s, %(token)s, %(error_class)s, 'C', 'm')).outcome", lambda: model.fail(token, error_class))] * 2,
        ("(settle.mark_sent(%(key)s, %(token)s)).outcome", lambda: model.hold(token, "marked")),
        ("(settle.renew(%(key)s, %(token)s, '1 h')).outcome", lambda: model.hold(token, "renewed")),
        ("settle.sweep()::text", lambda: str(model.sweep())),
        *[("test.lapse(%(key)s)", model.lapse), ("test.make_due(%(key)s)", model.make_due)] * 3,
        ("(settle.rerun(%(key)s, 'ann', 'r')).outcome", model.rerun),
        ("(settle.begin_rerun(%(key)s, 'model', %(request)s, 'ann', 'r', lease => '1 h')).outcome", lambda: model.begin_rerun(request)),
        ("(settle.decide(%(key)s, %(decision)s, 'ann', 'r')).outcome", lambda: model.decide(decision)),
        ("(settle.cancel(%(key)s, 'ann', 'r')).outcome", model.cancel),
        ("(settle.begin_compensation(%(key)s, 'ann', 'r', lease => '1 h')).outcome", model.compensate),
    ]), {"token": token, "said": said, "request": request, "trigger": trigger, "error_class": error_class, "decision": decision}


# What time would do; and after each act, as the wait before a retry is random, "not due" means "not for an hour".
SETUP = f"""
    select settle.declare_kind('model', '{KIND}');
    create schema test;
    create function test.lapse(of_key text) returns text language sql as $$
        update settle_data.operation set lease_until = clock_timestamp() - interval '1 s' where key = of_key and status = 'running';
        select null::text $$;
    create function test.make_due(of_key text) returns text language sql as $$
        update settle_data.operation set next_attempt_at = clock_timestamp() - interval '1 s' where key = of_key and status = 'pending';
        select null::text $$;
    create function test.act(statement text, of_key text, due boolean, out got text, out state text) language plpgsql as $$
    begin
        begin
            execute 'select ' || statement into got;
        exception when others then
            got := sqlstate;
        end;
        if not due then
            update settle_data.operation set next_attempt_at = clock_timestamp() + interval '1 h'
            where key = of_key and status = 'pending' and next_attempt_at < clock_timestamp() + interval '59 min';
        end if;
        select o.status || ' ' || o.attempt_count || ' ' || coalesce(o.token, 0) || ' ' || (o.finished_at is not null)
            || ' ' || (o.open_since is not null) || ' ' || coalesce((
                select string_agg(e.token || ':' || e.trigger || ':' || coalesce(e.outcome, '-'), ' ' order by e.token)
                from settle.executions e where e.namespace = 'default' and e.key = of_key), '')
        into state from settle.operations o where o.namespace = 'default' and o.key = of_key;
    end $$;
"""


def state_of(model):
    if model.status is None:
        return None
    final = str(model.status in FINAL).lower()
    unfinished = str(model.status not in FINAL).lower()
    executions = " ".join(f"{number}:{trigger}:{outcome or '-'}" for number, (trigger, outcome) in sorted(model.executions.items()))
    return f"{model.status} {model.attempts} {model.token} {final} {unfinished} {executions}"


def test_random_lives_agree_with_the_model(database, connect):
    connection = connect(database)
    chance = random.Random(SEED)
    met = set()
    with connection.cursor() as cursor:
        cursor.execute(SETUP)
        connection.commit()
        for life in range(LIVES):
            model, told = Model(), []
            for _ in range(ACTS):
                (call, act), values = acts(chance, model)
                values["key"] = f"life {life}"
                wanted = act()
                statement = cursor.mogrify(call, values).decode()
                told.append((statement, wanted))
                cursor.execute("select got, state from test.act(%s, %s, %s)", [statement, values["key"], model.due])
                got, state = cursor.fetchone()
                assert (got, state) == (wanted, state_of(model)), f"seed {SEED}, life {life}: {told}"
                met.add((call.split("(%")[0], model.status, wanted))
            connection.rollback()  # so that a sweep meets this life alone
    assert len(met) > 100, "the lives were too much alike to show anything"
