#include "store/operation.hpp"

#include <vector>

#include "store/sql_text.hpp"

namespace settle::store {

namespace {

std::string interval_text(std::chrono::milliseconds time) {
    return std::to_string(time.count()) + " milliseconds";
}

std::optional<std::string> interval_text(const std::optional<std::chrono::milliseconds>& time) {
    return time ? std::optional{interval_text(*time)} : std::nullopt;
}

Result<BeginAnswer> begin_with(pg::Connection& connection, std::string_view statement,
                               const std::vector<pg::Param>& params, Deadline deadline) {
    const auto rows = connection.query(statement, params, deadline);
    if (!rows) {
        return std::unexpected{rows.error()};
    }
    BeginAnswer answer;
    answer.outcome = rows->require(0, "outcome");
    answer.token = rows->integer(0, "token");
    answer.execution_id = rows->text(0, "execution_id");
    answer.status = rows->text(0, "status").value_or("");
    answer.result_ref = rows->text(0, "result_ref");
    answer.result = rows->text(0, "result");
    answer.failure = rows->text(0, "failure");
    answer.lease_until = rows->text(0, "lease_until");
    answer.next_attempt_at = rows->text(0, "next_attempt_at");
    answer.holder = rows->text(0, "holder");
    answer.attempt = static_cast<int>(rows->integer(0, "attempt_count").value_or(0));
    return answer;
}

Result<EndAnswer> end_with(pg::Connection& connection, std::string_view statement, const std::vector<pg::Param>& params,
                           Deadline deadline) {
    const auto rows = connection.query(statement, params, deadline);
    if (!rows) {
        return std::unexpected{rows.error()};
    }
    EndAnswer answer;
    answer.outcome = rows->require(0, "outcome");
    answer.current_token = rows->integer(0, "current_token");
    answer.holder = rows->text(0, "holder");
    if (statement == sql::renew) {
        answer.lease_until = rows->text(0, "lease_until");
        answer.cancel_requested = rows->boolean(0, "cancel_requested");
    } else if (statement == sql::fail) {
        answer.next_attempt_at = rows->text(0, "next_attempt_at");
    }
    return answer;
}

}  // namespace

Result<BeginAnswer> begin_operation(pg::Connection& connection, const BeginRequest& request, Deadline deadline) {
    return begin_with(connection, sql::begin_operation,
                      {request.operation.key, request.kind, request.request, request.operation.name_space,
                       request.trigger, request.owner, interval_text(request.lease), request.effect},
                      deadline);
}

Result<BeginAnswer> begin_rerun(pg::Connection& connection, const BeginRequest& request,
                                const std::string& operator_name, const std::string& reason, Deadline deadline) {
    return begin_with(connection, sql::begin_rerun,
                      {request.operation.key, request.kind, request.request, operator_name, reason,
                       request.operation.name_space, request.owner, interval_text(request.lease), request.effect},
                      deadline);
}

Result<BeginAnswer> begin_compensation(pg::Connection& connection, const CompensationRequest& request,
                                       Deadline deadline) {
    return begin_with(connection, sql::begin_compensation,
                      {request.operation.key, request.operator_name, request.reason, request.operation.name_space,
                       interval_text(request.lease), request.owner},
                      deadline);
}

Result<EndAnswer> complete(pg::Connection& connection, const OperationName& operation, std::int64_t token,
                           const std::optional<std::string>& result_ref, const std::optional<std::string>& result,
                           Deadline deadline) {
    return end_with(connection, sql::complete,
                    {operation.key, std::to_string(token), result_ref, result, operation.name_space}, deadline);
}

Result<EndAnswer> refuse(pg::Connection& connection, const OperationName& operation, std::int64_t token,
                         const std::string& code, const std::optional<std::string>& detail, Deadline deadline) {
    return end_with(connection, sql::refuse, {operation.key, std::to_string(token), code, detail, operation.name_space},
                    deadline);
}

Result<EndAnswer> fail(pg::Connection& connection, const OperationName& operation, std::int64_t token,
                       const Failure& failure, Deadline deadline) {
    return end_with(connection, sql::fail,
                    {operation.key, std::to_string(token), failure.error_class, failure.code, failure.message,
                     failure.may_have_applied ? "true" : "false", operation.name_space},
                    deadline);
}

Result<EndAnswer> mark_sent(pg::Connection& connection, const OperationName& operation, std::int64_t token,
                            const std::optional<std::string>& remote_ref, Deadline deadline) {
    return end_with(connection, sql::mark_sent,
                    {operation.key, std::to_string(token), remote_ref, operation.name_space}, deadline);
}

Result<EndAnswer> renew(pg::Connection& connection, const OperationName& operation, std::int64_t token,
                        std::chrono::milliseconds lease, const std::string& owner, Deadline deadline) {
    return end_with(connection, sql::renew,
                    {operation.key, std::to_string(token), interval_text(lease), owner, operation.name_space},
                    deadline);
}

}  // namespace settle::store
