// Typed calls of the functions that move an operation. Each is one round trip; outcomes are values, misuse is an error.
// None retries: what a lost answer means is the caller's to decide, who knows what it did before.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "pg/connection.hpp"

namespace settle::store {

struct OperationName {
    std::string name_space = "default";
    std::string key;
};

struct BeginRequest {
    OperationName operation;
    std::string kind;
    std::string request = "{}";  // JSON text that passed check_json_text
    std::string trigger = "call";
    std::string owner;
    std::optional<std::chrono::milliseconds> lease;
    std::optional<std::string> effect;  // of an undeclared kind: `opaque` or `keyed` for `exec`; none means local
};

struct BeginAnswer {
    std::string outcome;  // started | replayed | in_progress | conflict | frozen | unknown
    std::optional<std::int64_t> token;
    std::optional<std::string> execution_id;
    std::string status;
    std::optional<std::string> result_ref;
    std::optional<std::string> result;   // jsonb text, byte for byte as stored
    std::optional<std::string> failure;  // {"code": …, "detail": …}
    std::optional<std::string> lease_until;
    std::optional<std::string> next_attempt_at;
    std::optional<std::string> holder;
    int attempt = 0;  // of this operation, counting executions that ran; 0 unless started
};

struct EndAnswer {
    std::string outcome;  // completed | refused | marked | renewed | stale, or fail's own
    std::optional<std::int64_t> current_token;
    std::optional<std::string> holder;
    std::optional<std::string> lease_until;      // renew
    std::optional<std::string> next_attempt_at;  // fail
    bool cancel_requested = false;               // renew
};

Result<BeginAnswer> begin_operation(pg::Connection& connection, const BeginRequest& request, Deadline deadline);

// As begin_operation with trigger `manual`, and runs a failed or reviewed operation again under its key; a success is
// replayed. Needs the rights of settle_operator.
Result<BeginAnswer> begin_rerun(pg::Connection& connection, const BeginRequest& request,
                                const std::string& operator_name, const std::string& reason, Deadline deadline);

struct CompensationRequest {
    OperationName operation;  // the original
    std::string operator_name;
    std::string reason;
    std::optional<std::chrono::milliseconds> lease;
    std::string owner;
};

// Outcomes of begin_operation for `<key>~undo`, and not_applied, not_compensable, unknown of the original.
Result<BeginAnswer> begin_compensation(pg::Connection& connection, const CompensationRequest& request,
                                       Deadline deadline);

Result<EndAnswer> complete(pg::Connection& connection, const OperationName& operation, std::int64_t token,
                           const std::optional<std::string>& result_ref, const std::optional<std::string>& result,
                           Deadline deadline);
Result<EndAnswer> refuse(pg::Connection& connection, const OperationName& operation, std::int64_t token,
                         const std::string& code, const std::optional<std::string>& detail, Deadline deadline);

struct Failure {
    std::string error_class;  // transient | serialization | unknown | configuration | cancelled | defect | stale
    std::string code;
    std::string message;
    bool may_have_applied = false;
};
Result<EndAnswer> fail(pg::Connection& connection, const OperationName& operation, std::int64_t token,
                       const Failure& failure, Deadline deadline);

Result<EndAnswer> mark_sent(pg::Connection& connection, const OperationName& operation, std::int64_t token,
                            const std::optional<std::string>& remote_ref, Deadline deadline);
Result<EndAnswer> renew(pg::Connection& connection, const OperationName& operation, std::int64_t token,
                        std::chrono::milliseconds lease, const std::string& owner, Deadline deadline);

}  // namespace settle::store
