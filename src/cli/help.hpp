// What `--help` says below the options: an example, and the exit statuses that matter.
#pragma once

#include <string_view>

namespace settle::cli::help {

inline constexpr std::string_view overview = R"help(
Without --db and SETTLE_DB, Settle starts and uses a private PostgreSQL of its own,
in ${SETTLE_HOME:-~/.local/state/settle}.

Examples:
  settle exec --key report:2026-03 -- ./make-report   run it once, whoever asks
  settle show report:2026-03                          what became of it
  settle --db postgresql://host/app migrate           install in your database

Exit status: 0 done; 1 the answer is no; 2 wrong usage; 69 no database; 70 internal
fault; 77 no right; 103 to 111 Settle's own verdicts (see `settle exec --help`).)help";

inline constexpr std::string_view global_options =
    "\nThe options of `settle --help` (--db, --namespace, --json) are taken here, too.";

inline constexpr std::string_view db = R"help(
It lies in ${SETTLE_HOME:-~/.local/state/settle}, listens on a Unix socket alone and
writes durably. Any command without --db starts it by itself.

Example:
  psql "$(settle db url)"

SETTLE_PG_BIN names the directory of another PostgreSQL's programs.)help";

inline constexpr std::string_view db_up = R"help(
Example:
  settle db up

Exit status: 0 it runs and answers; 69 it cannot be started, and why.)help";

inline constexpr std::string_view db_down = R"help(
Example:
  settle db down

Exit status: 0 it does not run any more, or did not; 69 it has not stopped yet.)help";

inline constexpr std::string_view db_status = R"help(
Example:
  settle db status --json

Exit status: 0 it runs; 1 it does not.)help";

inline constexpr std::string_view db_url = R"help(
Example:
  psql "$(settle db url)"

Exit status: 0 printed; 69 it cannot be started, and why.)help";

inline constexpr std::string_view migrate = R"help(
Doing it again does nothing, and many may do it at once. It needs the right to create
schemas and roles.

Examples:
  settle --db postgresql://admin@host/app migrate
  settle migrate --print | less

Exit status: 0 done; 69 no database; 77 no right; 110 the schema is newer than this
program.)help";

inline constexpr std::string_view doctor = R"help(
Example:
  settle doctor --json

Exit status: 0 all is well; 1 there are findings, one line each.)help";

inline constexpr std::string_view exec = R"help(
The first who comes with a key runs the command; a repeat gets its exit status and the
kept end of its output (64 KiB of each stream) without running it. The key names the
business operation: the same key with another --request is a conflict. The command is
no part of the request.

While the command runs, its lease is renewed; when that fails, the command and its
process group are stopped (SIGTERM, then SIGKILL) before anybody else may run it. A
holder that vanished leaves the outcome unknown, and a person decides, unless
--repeatable says that the command may be run again.

The command sees SETTLE_KEY, SETTLE_ATTEMPT, SETTLE_TOKEN and SETTLE_DEADLINE.

Examples:
  settle exec --key invoice:2026-03 -- ./send-invoices 2026-03
  settle exec --key sync:7 --repeatable --lease 1m -- rsync -a src/ dst/
  settle exec --key invoice:2026-03 --rerun --operator ann --reason "fixed" -- ./send-invoices 2026-03

Exit status: the command's own, run or replayed, and
  2    wrong usage, nothing was run
  69   no database
  103  the key stands for another request
  104  it is running elsewhere
  105  its outcome is unknown: `settle review decide` settles it
  106  it is in review: `settle review show` says why
  107  the lease was lost, another holds it now
  110  the database's schema does not fit: `settle migrate`
  126, 127  the command cannot be run, or was not found)help";

inline constexpr std::string_view show = R"help(
Example:
  settle show invoice:2026-03 --json

Exit status: 0 shown; 108 there is no such operation.)help";

inline constexpr std::string_view trace = R"help(
Example:
  settle trace invoice:2026-03

Exit status: 0 shown; 108 there is no such operation.)help";

inline constexpr std::string_view list = R"help(
Statuses: pending, running, unknown, review, succeeded, failed, cancelled.

Example:
  settle list --status review --json

Exit status: 0, also where there is none.)help";

inline constexpr std::string_view rerun = R"help(
Acts on an operation in review, and on a failed one whose kind allows it; a success is
never run again. The decision is recorded with the operator and the reason.

Example:
  settle rerun invoice:2026-03 --operator ann --reason "address corrected" --revise '{"to":"x@y"}'

Exit status: 0 done; 1 refused, and why; 104, 105 as in `settle exec`; 108 no such
operation.)help";

inline constexpr std::string_view review = R"help(
Operations whose outcome is unknown, or that Settle may not go on with by itself. A
person looks and decides, once.

Example:
  settle review list
  settle review decide invoice:2026-03 --as succeeded --operator ann --reason "seen at the bank")help";

inline constexpr std::string_view review_list = R"help(
Example:
  settle review list --json

Exit status: 0, also where there is none.)help";

inline constexpr std::string_view review_show = R"help(
Example:
  settle review show invoice:2026-03

Exit status: 0 shown; 108 there is no such operation.)help";

inline constexpr std::string_view review_decide = R"help(
Decisions: succeeded (it was done: replay that), failed (it was not, and shall not be),
rerun (it was not: run it again), cancelled, compensate (undo it).

Example:
  settle review decide invoice:2026-03 --as rerun --operator ann --reason "nothing was sent"

Exit status: 0 done; 1 refused, and why; 108 no such operation; 111 somebody has
decided already.)help";

inline constexpr std::string_view lease = R"help(
One holder at a time has a resource, until its time is over. Its token grows with each
grant: pass it on with every write, so that a late holder's writes can be refused.

Example:
  settle lease hold nightly-import -- ./import)help";

inline constexpr std::string_view lease_acquire = R"help(
Example:
  settle lease acquire printer-1 --holder ann --ttl 5m --json

Exit status: 0 granted, with its token; 1 somebody else holds it.)help";

inline constexpr std::string_view lease_renew = R"help(
Example:
  settle lease renew printer-1 --holder ann --token 7 --ttl 5m

Exit status: 0 renewed; 107 lost: its time was over, or another has it.)help";

inline constexpr std::string_view lease_release = R"help(
Example:
  settle lease release printer-1 --holder ann --token 7

Exit status: 0 released; 107 lost: its time was over, or another has it.)help";

inline constexpr std::string_view lease_show = R"help(
Example:
  settle lease show printer-1 --json

Exit status: 0 shown; 108 nobody has ever held it.)help";

inline constexpr std::string_view lease_hold = R"help(
The lease is renewed while the command runs and released at its end. When it cannot be
renewed, the command and its process group are stopped before anybody else gets it. The
command sees SETTLE_RESOURCE and SETTLE_TOKEN.

Example:
  settle lease hold nightly-import --ttl 30s -- ./import

Exit status: the command's own, and 1 somebody else holds it; 107 it was lost.)help";

inline constexpr std::string_view lab = R"help(
`init` makes a small bank; `verify` tries on it what must hold (two callers at once, an
error half-way, a lost answer, a stale holder, an undo done twice) and prints what it saw.

Example:
  settle lab init && settle lab verify)help";

inline constexpr std::string_view lab_init = R"help(
Example:
  settle lab init

Exit status: 0 made; other: the schema is not empty, or the database cannot be used.)help";

inline constexpr std::string_view lab_verify = R"help(
Example:
  settle lab verify

Exit status: 0 all as promised, in six lines; other: the first figure that differs.)help";

inline constexpr std::string_view demo = R"help(
Example:
  settle demo

Exit status: 0 told to its end.)help";

}  // namespace settle::cli::help
