#include "store/review.hpp"

#include <string_view>

#include "store/inspect.hpp"
#include "store/sql_text.hpp"

namespace settle::store {

namespace {

constexpr int sweep_rows = 1000;  // the most that one call takes

Result<ActAnswer> act_by(pg::Connection& connection, std::string_view statement, const OperationName& operation,
                         const std::vector<pg::Param>& params, Deadline deadline) {
    auto answer = pg::in_transaction(connection, deadline, [&](pg::Connection& here) -> Result<ActAnswer> {
        const auto rows = here.query(statement, params, deadline);
        if (!rows) {
            return std::unexpected{rows.error()};
        }
        return ActAnswer{.outcome = rows->require(0, "outcome"),
                         .status = rows->text(0, "status").value_or(""),
                         .why = rows->text(0, "reason")};
    });
    if (!answer && answer.error().sqlstate == "55P03") {
        return fail(Code::in_progress, "another transaction is at work on \"" + operation.key +
                                           "\" and has not ended in time; nothing was decided, try again");
    }
    if (!answer && answer.error().code == Code::not_found) {
        return std::unexpected{no_such_operation(operation)};
    }
    return answer;
}

}  // namespace

Result<std::int64_t> sweep(pg::Connection& connection, const std::string& name_space, Deadline deadline) {
    std::int64_t total = 0;
    for (;;) {
        const auto rows = connection.query(sql::sweep, {std::to_string(sweep_rows), name_space}, deadline);
        if (!rows) {
            return std::unexpected{rows.error()};
        }
        const std::int64_t settled = rows->integer(0, "settled").value_or(0);
        total += settled;
        if (settled < sweep_rows || deadline.passed()) {
            return total;
        }
    }
}

Result<std::vector<ReviewLine>> reviews(pg::Connection& connection, const std::string& name_space, Deadline deadline) {
    const auto rows = connection.query(sql::review_list, {name_space}, deadline);
    if (!rows) {
        return std::unexpected{rows.error()};
    }
    std::vector<ReviewLine> found;
    found.reserve(static_cast<std::size_t>(rows->count()));
    for (int row = 0; row < rows->count(); ++row) {
        found.push_back({.document = rows->require(row, "document"),
                         .key = rows->require(row, "key"),
                         .kind = rows->text(row, "kind"),
                         .reason = rows->require(row, "reason"),
                         .status = rows->require(row, "status"),
                         .approvals = rows->integer(row, "approvals").value_or(0),
                         .since = rows->require(row, "since"),
                         .error_code = rows->text(row, "error_code"),
                         .error_message = rows->text(row, "error_message")});
    }
    return found;
}

Result<ActAnswer> rerun(pg::Connection& connection, const Act& act, Deadline deadline) {
    return act_by(connection, sql::rerun, act.operation,
                  {act.operation.key, act.operator_name, act.reason, act.request, act.operation.name_space}, deadline);
}

Result<ActAnswer> decide(pg::Connection& connection, const Act& act, const std::string& decision,
                         const std::optional<std::string>& result_ref, Deadline deadline) {
    return act_by(
        connection, sql::decide, act.operation,
        {act.operation.key, decision, act.operator_name, act.reason, result_ref, act.request, act.operation.name_space},
        deadline);
}

}  // namespace settle::store
