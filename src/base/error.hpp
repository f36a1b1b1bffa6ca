// The one table of codes, and the value every fallible call of the program returns.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>

namespace settle {

// One code for one kind of answer, the same in SQL, C++, HTTP and exit statuses.
enum class Code {
    parameter_conflict,
    in_progress,
    outcome_unknown,
    frozen,
    stale_token,
    not_found,
    invalid_argument,
    not_compensable,
    already_decided,
    operation_not_ended,
    unauthenticated,
    retention_too_short,
    unsupported_schema,
    permission_denied,
    database_unreachable,
    internal,
};

struct CodeInfo {
    Code code;
    std::string_view name;      // as printed: IDEMPOTENCY_PARAMETER_CONFLICT, …
    std::string_view sqlstate;  // empty where SQL never raises it
    int http_status;
    int exit_status;
};

const CodeInfo& info(Code code) noexcept;

// The code behind a SQLSTATE that Settle's functions raise, or nothing.
std::optional<Code> code_of_sqlstate(std::string_view sqlstate) noexcept;

struct Error {
    Code code = Code::internal;
    std::string message;   // one line; says what to do next where something can be done
    std::string sqlstate;  // empty where the database said nothing
    std::string detail;    // the database's DETAIL; Settle's own errors put JSON there
};

template <class T>
using Result = std::expected<T, Error>;

std::unexpected<Error> fail(Code code, std::string message);

// INVALID_ARGUMENT that names its field.
std::unexpected<Error> invalid_argument(std::string_view field, std::string_view why);

// "CODE: message", on one line whatever the message holds; no terminal escapes survive.
std::string describe(const Error& error);

}  // namespace settle
