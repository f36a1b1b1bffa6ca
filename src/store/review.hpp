// The manual queue, and what a person decides. Each act is one transaction, audited by the function it calls.
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

// Settles the namespace's lapsed leases that nobody has met yet, and brings what only a person can tell into review;
// how many. `permission_denied` where the role may not.
Result<std::int64_t> sweep(pg::Connection& connection, const std::string& name_space, Deadline deadline);

struct ReviewLine {
    std::string document;
    std::string key;
    std::optional<std::string> kind;
    std::string reason;
    std::string status;
    std::int64_t approvals = 0;
    std::string since;
    std::optional<std::string> error_code;
    std::optional<std::string> error_message;
};

// The longest waiting first.
Result<std::vector<ReviewLine>> reviews(pg::Connection& connection, const std::string& name_space, Deadline deadline);

struct Act {
    OperationName operation;
    std::string operator_name;
    std::string reason;
    std::optional<std::string> request;  // the whole revised one, as JSON text that passed check_json_text
};

struct ActAnswer {
    std::string outcome;  // done | approved | already_decided | refused
    std::string status;   // of the operation now
    std::optional<std::string> why;
};

// Both: `not_found`, and `in_progress` where another transaction keeps the operation for longer than the lock wait.
Result<ActAnswer> rerun(pg::Connection& connection, const Act& act, Deadline deadline);
Result<ActAnswer> decide(pg::Connection& connection, const Act& act, const std::string& decision,
                         const std::optional<std::string>& result_ref, Deadline deadline);

}  // namespace settle::store
