#include "base/error.hpp"

#include <array>
#include <cstddef>
#include <utility>

#include "base/text.hpp"

namespace settle {
namespace {

// In the order of the enumeration: `info` indexes it.
constexpr std::array table{
    CodeInfo{Code::parameter_conflict, "IDEMPOTENCY_PARAMETER_CONFLICT", "ST001", 422, 103},
    CodeInfo{Code::in_progress, "OPERATION_IN_PROGRESS", "ST002", 409, 104},
    CodeInfo{Code::outcome_unknown, "OUTCOME_UNKNOWN", "ST003", 409, 105},
    CodeInfo{Code::frozen, "OPERATION_FROZEN", "ST004", 423, 106},
    CodeInfo{Code::stale_token, "STALE_TOKEN", "ST005", 412, 107},
    CodeInfo{Code::not_found, "NOT_FOUND", "ST006", 404, 108},
    CodeInfo{Code::invalid_argument, "INVALID_ARGUMENT", "ST007", 400, 2},
    CodeInfo{Code::not_compensable, "NOT_COMPENSABLE", "ST008", 409, 109},
    CodeInfo{Code::already_decided, "ALREADY_DECIDED", "ST011", 409, 111},
    CodeInfo{Code::operation_not_ended, "OPERATION_NOT_ENDED", "ST012", 500, 70},
    CodeInfo{Code::unauthenticated, "UNAUTHENTICATED", "", 401, 77},
    CodeInfo{Code::retention_too_short, "RETENTION_TOO_SHORT", "ST009", 400, 2},
    CodeInfo{Code::unsupported_schema, "UNSUPPORTED_SCHEMA", "ST010", 503, 110},
    CodeInfo{Code::permission_denied, "PERMISSION_DENIED", "42501", 403, 77},
    CodeInfo{Code::database_unreachable, "DATABASE_UNREACHABLE", "", 503, 69},
    CodeInfo{Code::internal, "INTERNAL", "", 500, 70},
};

constexpr bool in_enumeration_order() {
    for (std::size_t i = 0; i < table.size(); ++i) {
        if (static_cast<std::size_t>(table[i].code) != i) {
            return false;
        }
    }
    return table.size() == static_cast<std::size_t>(Code::internal) + 1;
}
static_assert(in_enumeration_order());

}  // namespace

const CodeInfo& info(Code code) noexcept {
    const auto index = static_cast<std::size_t>(code);
    return index < table.size() ? table[index] : table.back();
}

std::optional<Code> code_of_sqlstate(std::string_view sqlstate) noexcept {
    if (sqlstate.empty()) {
        return std::nullopt;
    }
    for (const CodeInfo& entry : table) {
        if (entry.sqlstate == sqlstate) {
            return entry.code;
        }
    }
    return std::nullopt;
}

std::unexpected<Error> fail(Code code, std::string message) {
    return std::unexpected{Error{.code = code, .message = std::move(message), .sqlstate = {}, .detail = {}}};
}

std::unexpected<Error> invalid_argument(std::string_view field, std::string_view why) {
    std::string message{field};
    message += ": ";
    message += why;
    return fail(Code::invalid_argument, std::move(message));
}

std::string describe(const Error& error) {
    std::string line{info(error.code).name};
    line += ": ";
    line += printable(error.message);
    return line;
}

}  // namespace settle
