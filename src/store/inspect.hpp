// What people and programs read of operations. `document` is JSON built by the database, so that numbers stay digit for
// digit; the other members are for the plain form. Instants are RFC 3339 in UTC.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "pg/connection.hpp"
#include "store/operation.hpp"

namespace settle::store {

// `not_found`, saying where to look.
Error no_such_operation(const OperationName& operation);

struct ErrorText {
    std::string error_class;
    std::string code;
    std::string message;
};

struct ExecutionLine {
    std::int64_t token = 0;
    std::string trigger;
    std::optional<std::string> worker;
    std::optional<std::string> outcome;  // nothing while it runs
    std::optional<ErrorText> error;
    std::optional<std::string> remote_ref;
    std::optional<std::string> sent_at;
    std::int64_t repeats = 0;  // whole-transaction repeats in place
    std::optional<std::string> operator_name;
    std::optional<std::string> reason;
    std::optional<std::string> started_at;
    std::optional<std::string> finished_at;
};

struct DecisionLine {
    std::string document;
    std::string decided_at;
    std::string act;
    std::string operator_name;
    std::string reason;
    std::string from_status;
    std::string to_status;
};

// Where a person is asked: in review, or unknown with nothing that could look it up.
struct ReviewState {
    std::string document;
    std::string reason;
    std::string since;
    std::int64_t approvals = 0;
};

struct Shown {
    std::string document;
    std::string status;
    std::optional<std::string> kind;
    std::optional<std::string> effect;
    std::optional<std::string> request;
    std::optional<std::string> digest;
    std::optional<std::string> result_ref;
    std::optional<std::string> result;
    std::optional<std::string> failure_code;
    std::optional<std::string> failure_detail;
    std::int64_t attempt_count = 0;
    std::string created_at;
    std::optional<std::string> finished_at;
    std::optional<std::string> next_attempt_at;
    std::optional<std::int64_t> due_in_s;  // negative: due since then
    std::optional<ErrorText> last_error;
    std::optional<std::int64_t> token;
    std::optional<std::string> lease_owner;
    std::optional<std::string> lease_until;
    std::optional<std::int64_t> lease_left_s;  // negative: lapsed since then
    std::optional<std::string> sent_at;
    std::optional<std::string> remote_ref;
    bool cancel_requested = false;
    std::optional<std::string> compensates;
    std::optional<std::string> compensated_by;
    std::optional<std::string> compensation_status;
    std::optional<std::string> operator_name;  // of the current execution, or of who asked for this compensation
    std::optional<std::string> reason;
    std::optional<ReviewState> review;
    bool declared = false;  // its kind is; the next three are then known where the kind's revision is still in force
    std::optional<std::int64_t> approvals_needed;
    std::optional<std::string> compensation_kind;
    std::optional<bool> rerun_failed;
    bool has_resolver = false;
    std::vector<ExecutionLine> executions;  // the latest of them
    std::int64_t execution_count = 0;
    std::vector<DecisionLine> decisions;
};

// One operation, all of it in one snapshot; `not_found` where there is none.
Result<Shown> show(pg::Connection& connection, const OperationName& operation, Deadline deadline);

struct TraceEvent {
    std::string document;
    std::string at;
    std::string key;
    std::string event;  // created | undone_first | started | sent | ended | repeated | decided
    std::optional<std::string> execution_id;
    std::optional<std::int64_t> token;
    std::optional<std::string> trigger;
    std::optional<std::string> worker;
    std::optional<std::string> outcome;
    std::optional<std::string> operator_name;
    std::optional<std::string> reason;
    std::optional<std::string> kind;
    std::optional<std::string> compensates;
    std::optional<std::string> remote_ref;
    std::optional<std::string> result_ref;
    std::optional<std::string> error_code;
    std::optional<std::string> error_message;
    std::optional<std::string> failure_code;
    std::optional<std::string> act;
    std::optional<std::string> from_status;
    std::optional<std::string> to_status;
};

struct Trace {
    std::string status;
    std::optional<std::string> kind;
    std::vector<TraceEvent> events;  // in the order of time, the compensation's among them
};

Result<Trace> trace(pg::Connection& connection, const OperationName& operation, Deadline deadline);

struct ListFilter {
    std::string name_space;
    std::optional<std::string> status;
    std::optional<std::string> kind;
    int limit = 100;
};

struct ListedOperation {
    std::string document;
    std::string key;
    std::optional<std::string> kind;
    std::string status;
    std::int64_t attempt_count = 0;
    std::string created_at;
    std::optional<std::string> next_attempt_at;
    std::optional<std::string> result_ref;
    std::optional<std::string> error_code;
    std::optional<std::string> error_message;
    std::optional<std::string> failure_code;
};

// Newest first.
Result<std::vector<ListedOperation>> list(pg::Connection& connection, const ListFilter& filter, Deadline deadline);

}  // namespace settle::store
