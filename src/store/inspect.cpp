#include "store/inspect.hpp"

#include "store/sql_text.hpp"

namespace settle::store {

namespace {

constexpr int executions_shown = 20;  // in the plain form; the document has all of them

std::optional<ErrorText> error_at(const pg::Rows& rows, int row) {
    auto error_class = rows.text(row, "error_class");
    auto code = rows.text(row, "error_code");
    if (!error_class && !code) {
        return std::nullopt;
    }
    return ErrorText{.error_class = error_class.value_or(""),
                     .code = code.value_or(""),
                     .message = rows.text(row, "error_message").value_or("")};
}

ExecutionLine execution_at(const pg::Rows& rows, int row) {
    return ExecutionLine{.token = rows.integer(row, "token").value_or(0),
                         .trigger = rows.text(row, "trigger").value_or(""),
                         .worker = rows.text(row, "worker"),
                         .outcome = rows.text(row, "outcome"),
                         .error = error_at(rows, row),
                         .remote_ref = rows.text(row, "remote_ref"),
                         .sent_at = rows.text(row, "sent_at"),
                         .repeats = rows.integer(row, "repeats").value_or(0),
                         .operator_name = rows.text(row, "operator"),
                         .reason = rows.text(row, "reason"),
                         .started_at = rows.text(row, "started_at"),
                         .finished_at = rows.text(row, "finished_at")};
}

DecisionLine decision_at(const pg::Rows& rows, int row) {
    return DecisionLine{.document = rows.require(row, "document"),
                        .decided_at = rows.require(row, "decided_at"),
                        .act = rows.require(row, "act"),
                        .operator_name = rows.require(row, "operator"),
                        .reason = rows.require(row, "reason"),
                        .from_status = rows.require(row, "from_status"),
                        .to_status = rows.require(row, "to_status")};
}

std::optional<bool> known_boolean(const pg::Rows& rows, std::string_view column) {
    return rows.text(0, column) ? std::optional{rows.boolean(0, column)} : std::nullopt;
}

Shown operation_of(const pg::Rows& rows) {
    Shown shown;
    shown.document = rows.require(0, "document");
    shown.status = rows.require(0, "status");
    shown.kind = rows.text(0, "kind");
    shown.effect = rows.text(0, "effect");
    shown.request = rows.text(0, "request");
    shown.digest = rows.text(0, "digest");
    shown.result_ref = rows.text(0, "result_ref");
    shown.result = rows.text(0, "result");
    shown.failure_code = rows.text(0, "failure_code");
    shown.failure_detail = rows.text(0, "failure_detail");
    shown.attempt_count = rows.integer(0, "attempt_count").value_or(0);
    shown.created_at = rows.require(0, "created_at");
    shown.finished_at = rows.text(0, "finished_at");
    shown.next_attempt_at = rows.text(0, "next_attempt_at");
    shown.due_in_s = rows.integer(0, "due_in_s");
    shown.last_error = error_at(rows, 0);
    shown.token = rows.integer(0, "token");
    shown.lease_owner = rows.text(0, "lease_owner");
    shown.lease_until = rows.text(0, "lease_until");
    shown.lease_left_s = rows.integer(0, "lease_left_s");
    shown.sent_at = rows.text(0, "sent_at");
    shown.remote_ref = rows.text(0, "remote_ref");
    shown.cancel_requested = rows.boolean(0, "cancel_requested");
    shown.compensates = rows.text(0, "compensates");
    shown.compensated_by = rows.text(0, "compensated_by");
    shown.compensation_status = rows.text(0, "compensation_status");
    shown.operator_name = rows.text(0, "operator");
    shown.reason = rows.text(0, "reason");
    if (rows.text(0, "review_reason")) {
        shown.review = ReviewState{.document = rows.require(0, "review"),
                                   .reason = rows.require(0, "review_reason"),
                                   .since = rows.text(0, "review_since").value_or(""),
                                   .approvals = rows.integer(0, "approvals").value_or(0)};
    }
    shown.declared = rows.integer(0, "revision").value_or(0) > 0;
    shown.approvals_needed = rows.integer(0, "approvals_needed");
    shown.compensation_kind = rows.text(0, "compensation_kind");
    shown.rerun_failed = known_boolean(rows, "rerun_failed");
    shown.has_resolver = rows.boolean(0, "has_resolver");
    return shown;
}

Result<Shown> show_here(pg::Connection& connection, const OperationName& operation, Deadline deadline) {
    const auto found = connection.query(sql::show, {operation.name_space, operation.key}, deadline);
    if (!found) {
        return std::unexpected{found.error()};
    }
    if (found->count() == 0) {
        return std::unexpected{no_such_operation(operation)};
    }
    Shown shown = operation_of(*found);
    const auto executions = connection.query(
        sql::executions, {operation.name_space, operation.key, std::to_string(executions_shown)}, deadline);
    if (!executions) {
        return std::unexpected{executions.error()};
    }
    for (int row = 0; row < executions->count(); ++row) {
        shown.executions.push_back(execution_at(*executions, row));
        shown.execution_count = executions->integer(row, "total").value_or(0);
    }
    const auto decisions = connection.query(sql::decisions, {operation.name_space, operation.key}, deadline);
    if (!decisions) {
        return std::unexpected{decisions.error()};
    }
    for (int row = 0; row < decisions->count(); ++row) {
        shown.decisions.push_back(decision_at(*decisions, row));
    }
    return shown;
}

TraceEvent event_at(const pg::Rows& rows, int row) {
    return TraceEvent{.document = rows.require(row, "document"),
                      .at = rows.text(row, "at").value_or(""),
                      .key = rows.require(row, "key"),
                      .event = rows.require(row, "event"),
                      .execution_id = rows.text(row, "execution_id"),
                      .token = rows.integer(row, "token"),
                      .trigger = rows.text(row, "trigger"),
                      .worker = rows.text(row, "worker"),
                      .outcome = rows.text(row, "outcome"),
                      .operator_name = rows.text(row, "operator"),
                      .reason = rows.text(row, "reason"),
                      .kind = rows.text(row, "event_kind"),
                      .compensates = rows.text(row, "compensates"),
                      .remote_ref = rows.text(row, "remote_ref"),
                      .result_ref = rows.text(row, "result_ref"),
                      .error_code = rows.text(row, "error_code"),
                      .error_message = rows.text(row, "error_message"),
                      .failure_code = rows.text(row, "failure_code"),
                      .act = rows.text(row, "act"),
                      .from_status = rows.text(row, "from_status"),
                      .to_status = rows.text(row, "to_status")};
}

}  // namespace

Error no_such_operation(const OperationName& operation) {
    return fail(Code::not_found, "no operation \"" + operation.key + "\" in namespace \"" + operation.name_space +
                                     "\"; settle list shows what there is")
        .error();
}

Result<Shown> show(pg::Connection& connection, const OperationName& operation, Deadline deadline) {
    // Three statements of one moment: what is said of the operation must fit what is said of its executions.
    if (auto begun = connection.script("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", deadline); !begun) {
        return std::unexpected{begun.error()};
    }
    auto shown = show_here(connection, operation, deadline);
    connection.rollback(deadline);
    return shown;
}

Result<Trace> trace(pg::Connection& connection, const OperationName& operation, Deadline deadline) {
    const auto rows = connection.query(sql::trace, {operation.name_space, operation.key}, deadline);
    if (!rows) {
        return std::unexpected{rows.error()};
    }
    if (rows->count() == 0) {
        return std::unexpected{no_such_operation(operation)};
    }
    Trace trace{.status = rows->require(0, "status"), .kind = rows->text(0, "kind"), .events = {}};
    for (int row = 0; row < rows->count(); ++row) {
        trace.events.push_back(event_at(*rows, row));
    }
    return trace;
}

Result<std::vector<ListedOperation>> list(pg::Connection& connection, const ListFilter& filter, Deadline deadline) {
    const auto rows = connection.query(
        sql::list, {filter.name_space, filter.status, filter.kind, std::to_string(filter.limit)}, deadline);
    if (!rows) {
        return std::unexpected{rows.error()};
    }
    std::vector<ListedOperation> found;
    found.reserve(static_cast<std::size_t>(rows->count()));
    for (int row = 0; row < rows->count(); ++row) {
        found.push_back({.document = rows->require(row, "document"),
                         .key = rows->require(row, "key"),
                         .kind = rows->text(row, "kind"),
                         .status = rows->require(row, "status"),
                         .attempt_count = rows->integer(row, "attempt_count").value_or(0),
                         .created_at = rows->require(row, "created_at"),
                         .next_attempt_at = rows->text(row, "next_attempt_at"),
                         .result_ref = rows->text(row, "result_ref"),
                         .error_code = rows->text(row, "error_code"),
                         .error_message = rows->text(row, "error_message"),
                         .failure_code = rows->text(row, "failure_code")});
    }
    return found;
}

}  // namespace settle::store
