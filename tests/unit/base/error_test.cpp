#include "base/error.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string_view>
#include <tuple>
#include <vector>

namespace settle {
namespace {

TEST(Errors, HaveTheDocumentedNamesStatesAndStatuses) {
    using Row = std::tuple<Code, std::string_view, std::string_view, int, int>;
    const std::vector<Row> documented{
        {Code::parameter_conflict, "IDEMPOTENCY_PARAMETER_CONFLICT", "ST001", 422, 103},
        {Code::in_progress, "OPERATION_IN_PROGRESS", "ST002", 409, 104},
        {Code::outcome_unknown, "OUTCOME_UNKNOWN", "ST003", 409, 105},
        {Code::frozen, "OPERATION_FROZEN", "ST004", 423, 106},
        {Code::stale_token, "STALE_TOKEN", "ST005", 412, 107},
        {Code::not_found, "NOT_FOUND", "ST006", 404, 108},
        {Code::invalid_argument, "INVALID_ARGUMENT", "ST007", 400, 2},
        {Code::not_compensable, "NOT_COMPENSABLE", "ST008", 409, 109},
        {Code::already_decided, "ALREADY_DECIDED", "ST011", 409, 111},
        {Code::operation_not_ended, "OPERATION_NOT_ENDED", "ST012", 500, 70},
        {Code::unauthenticated, "UNAUTHENTICATED", "", 401, 77},
        {Code::retention_too_short, "RETENTION_TOO_SHORT", "ST009", 400, 2},
        {Code::unsupported_schema, "UNSUPPORTED_SCHEMA", "ST010", 503, 110},
        {Code::permission_denied, "PERMISSION_DENIED", "42501", 403, 77},
        {Code::database_unreachable, "DATABASE_UNREACHABLE", "", 503, 69},
        {Code::internal, "INTERNAL", "", 500, 70},
    };
    std::set<std::string_view> names;
    for (const auto& [code, name, sqlstate, http, exit] : documented) {
        const CodeInfo& entry = info(code);
        EXPECT_EQ(entry.name, name);
        EXPECT_EQ(entry.sqlstate, sqlstate) << name;
        EXPECT_EQ(entry.http_status, http) << name;
        EXPECT_EQ(entry.exit_status, exit) << name;
        if (!sqlstate.empty()) {
            EXPECT_EQ(code_of_sqlstate(sqlstate), code) << name;
        }
        names.insert(entry.name);
    }
    EXPECT_EQ(names.size(), documented.size());
}

TEST(Errors, KnowOnlySettlesOwnStates) {
    EXPECT_EQ(code_of_sqlstate(""), std::nullopt);
    EXPECT_EQ(code_of_sqlstate("ST999"), std::nullopt);
    EXPECT_EQ(code_of_sqlstate("40001"), std::nullopt);
}

TEST(Errors, AreDescribedOnOneLine) {
    const auto error = invalid_argument("key", "two\nlines \x1b[2J").error();
    EXPECT_EQ(error.code, Code::invalid_argument);
    EXPECT_EQ(error.message, "key: two\nlines \x1b[2J");
    EXPECT_EQ(describe(error), "INVALID_ARGUMENT: key: two\\nlines \\u001b[2J");
}

}  // namespace
}  // namespace settle
