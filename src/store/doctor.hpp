// Looks at everything that must be true of a database with Settle in it. Each finding says what to do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "pg/connection.hpp"

namespace settle::store {

struct Finding {
    std::string severity;    // error: a promise is broken, or may be | warning: somebody has to look | info
    std::string finding;     // one line
    std::string what_to_do;  // one line
    std::string detail;      // a JSON object with the member `check`
};

// Runs every check that the role may run; what it may not is one finding of severity `info`. Where the schema is not
// this program's, that is the finding, and the server alone is looked at. An error only where the database cannot be
// asked.
Result<std::vector<Finding>> doctor(pg::Connection& connection, Deadline deadline);

// What `error`, of code `unsupported_schema`, says about the database.
Finding unsupported(const Error& error);

// This machine's wall clock before and after the database was asked for its own, in milliseconds since 1970.
struct ClockReading {
    std::int64_t before_ms = 0;
    std::int64_t after_ms = 0;
    std::int64_t database_ms = 0;
};

// A difference of more than five seconds that the time between question and answer does not explain.
std::optional<Finding> clock_difference(const ClockReading& reading);

}  // namespace settle::store
