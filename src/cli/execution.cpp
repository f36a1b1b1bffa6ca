#include "cli/execution.hpp"

#include "base/limits.hpp"
#include "store/sql_text.hpp"

namespace settle::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto begin_wait = 60s;  // to learn what became of a beginning whose answer was lost
constexpr auto call_wait = 15s;   // one call, a wait for the key's lock included

// The execution that this owner holds now, where it holds one.
Result<std::optional<BegunExecution>> held_by_us(pg::Connection& connection, const ExecutionRequest& request,
                                                 Deadline deadline) {
    const store::OperationName& name = request.begin.operation;
    auto rows =
        connection.query(store::sql::begun_execution, {name.name_space, name.key, request.begin.owner}, deadline);
    if (!rows) {
        return std::unexpected{rows.error()};
    }
    if (rows->count() == 0) {
        return std::nullopt;
    }
    BegunExecution begun;
    begun.answer.outcome = "started";
    begun.answer.status = "running";
    begun.answer.token = rows->integer(0, "token");
    begun.answer.execution_id = name.key + "#" + rows->require(0, "token");
    begun.answer.attempt = static_cast<int>(rows->integer(0, "attempt_count").value_or(1));
    begun.opaque = rows->text(0, "effect") == "opaque";
    return begun;
}

Result<BegunExecution> begin_once(pg::Connection& connection, const ExecutionRequest& request) {
    const Deadline deadline = Deadline::in(call_wait);
    return pg::in_transaction(connection, deadline, [&](pg::Connection& inside) -> Result<BegunExecution> {
        auto answer = request.rerun
                          ? store::begin_rerun(inside, request.begin, request.operator_name, request.reason, deadline)
                          : store::begin_operation(inside, request.begin, deadline);
        if (!answer) {
            return std::unexpected{answer.error()};
        }
        BegunExecution begun{.answer = std::move(*answer), .opaque = false, .sent_at = {}, .interrupted_by = 0};
        if (begun.answer.outcome != "started") {
            return begun;
        }
        // A declared kind's own effect wins over what was asked for.
        auto held = held_by_us(inside, request, deadline);
        if (!held) {
            return std::unexpected{held.error()};
        }
        begun.opaque = *held && (*held)->opaque;
        if (begun.opaque) {
            auto marked = store::mark_sent(inside, request.begin.operation, begun.answer.token.value_or(0),
                                           std::nullopt, deadline);
            if (!marked) {
                return std::unexpected{marked.error()};
            }
            if (marked->outcome != "marked") {
                return fail(Code::stale_token, "the lease lapsed before the command could be started; nothing was run");
            }
        }
        return begun;
    });
}

}  // namespace

Result<BegunExecution> begin_execution(Reconnecting& database, const ExecutionRequest& request,
                                       handler::SignalGate& signals) {
    const auto first_sent_at = BootClock::now();
    const Deadline deadline = Deadline::in(begin_wait);
    Backoff backoff;
    bool maybe_begun = false;
    for (;;) {
        auto connection = database.get();
        Result<BegunExecution> begun = connection ? begin_once(**connection, request)
                                                  : Result<BegunExecution>{std::unexpected{connection.error()}};
        if (begun && begun->answer.outcome == "in_progress" && begun->answer.holder == request.begin.owner) {
            auto held = held_by_us(**connection, request, Deadline::in(call_wait));
            if (held && *held) {
                begun = std::move(**held);
            } else if (!held) {
                begun = std::unexpected{held.error()};
            }
        }
        // Without a holder the key is in an open transaction: it may be our own lost one.
        const bool waits_for_us =
            begun && maybe_begun && begun->answer.outcome == "in_progress" && !begun->answer.holder;
        if (!waits_for_us && (begun || !is_passing(begun.error()))) {
            if (begun) {
                begun->sent_at = first_sent_at;  // of several tries, the one that counts may be the first
            }
            return begun;
        }
        if (deadline.passed()) {
            return begun;
        }
        maybe_begun = true;
        signals.wait(backoff.next());
        if (const auto signal = signals.take(); signal && handler::asks_to_end(*signal)) {
            return BegunExecution{.answer = {}, .opaque = false, .sent_at = {}, .interrupted_by = *signal};
        }
    }
}

Result<engine::Beat> renew_execution(Reconnecting& database, const Holding& holding, Deadline deadline) {
    auto connection = database.get(deadline);
    if (!connection) {
        return std::unexpected{connection.error()};
    }
    auto answer = store::renew(**connection, holding.operation, holding.token, holding.lease, holding.owner, deadline);
    if (!answer) {
        return std::unexpected{answer.error()};
    }
    return answer->outcome == "renewed" ? engine::Beat::renewed : engine::Beat::lost;
}

namespace {

Result<store::EndAnswer> record_once(pg::Connection& connection, const Holding& holding, const Ending& ending) {
    const Deadline deadline = Deadline::in(call_wait);
    switch (ending.kind) {
        case Ending::Kind::complete:
            return store::complete(connection, holding.operation, holding.token, std::nullopt, ending.document,
                                   deadline);
        case Ending::Kind::refuse:
            return store::refuse(connection, holding.operation, holding.token, ending.code, ending.document, deadline);
        case Ending::Kind::fail:
            break;
    }
    return store::fail(connection, holding.operation, holding.token, ending.failure, deadline);
}

}  // namespace

Result<store::EndAnswer> record_ending(Reconnecting& database, const Holding& holding, const Ending& ending,
                                       handler::SignalGate& signals) {
    while (signals.take()) {
        // what came before now was passed on to the command, or came too late for it
    }
    const Deadline deadline = Deadline::in(limits::record_wait);
    Backoff backoff;
    for (;;) {
        auto connection = database.get();
        Result<store::EndAnswer> answer = connection ? record_once(**connection, holding, ending)
                                                     : Result<store::EndAnswer>{std::unexpected{connection.error()}};
        if (answer || !is_passing(answer.error()) || deadline.passed()) {
            return answer;
        }
        signals.wait(backoff.next());
        if (const auto signal = signals.take(); signal && handler::asks_to_end(*signal)) {
            return answer;
        }
    }
}

}  // namespace settle::cli
