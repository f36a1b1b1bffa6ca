#include "pg/failure.hpp"

#include <fmt/format.h>
#include <libpq-fe.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>

namespace settle::pg {
namespace {

std::string field(const pg_result* result, int code) {
    const char* text = PQresultErrorField(result, code);
    return text == nullptr ? std::string{} : std::string{text};
}

bool one_of(std::string_view value, std::initializer_list<std::string_view> values) {
    return std::ranges::find(values, value) != values.end();
}

// A missing schema, table, function or type that belongs to Settle; the text may be in any language, the name is not.
bool names_settle(std::string_view sqlstate, std::string_view message) {
    if (sqlstate == "3F000") {
        return message.contains("\"settle\"") || message.contains("\"settle_data\"");
    }
    constexpr std::array<std::string_view, 4> names{" settle.", "\"settle.", " settle_data.", "\"settle_data."};
    return std::ranges::any_of(names, [&](std::string_view name) { return message.contains(name); });
}

std::string without_prefix(std::string message, std::string_view prefix) {
    if (message.starts_with(prefix)) {
        message.erase(0, prefix.size());
        if (message.starts_with(": ")) {
            message.erase(0, 2);
        } else if (message.starts_with(":")) {
            message.erase(0, 1);
        }
    }
    return message;
}

}  // namespace

std::string one_line(std::string_view text) {
    std::string line;
    bool space = false;
    for (const char character : text) {
        if (character == '\n' || character == '\r' || character == '\t' || character == ' ') {
            space = !line.empty();
            continue;
        }
        if (space) {
            line += ' ';
            space = false;
        }
        line += character;
    }
    return line;
}

Error error_of(const pg_result* result) {
    Error error;
    error.sqlstate = field(result, PG_DIAG_SQLSTATE);
    error.message = field(result, PG_DIAG_MESSAGE_PRIMARY);
    error.detail = field(result, PG_DIAG_MESSAGE_DETAIL);
    if (error.message.empty()) {
        error.message = one_line(PQresultErrorMessage(result));
    }
    const std::string_view state = error.sqlstate;
    if (const auto code = code_of_sqlstate(state)) {
        error.code = *code;
        if (state.starts_with("ST")) {
            error.message = without_prefix(std::move(error.message), info(*code).name);
        }
    } else if (one_of(state, {"22021", "22P02", "22P05"})) {
        error.code = Code::invalid_argument;
    } else if (one_of(state, {"42P01", "3F000", "42883", "42704"}) && names_settle(state, error.message)) {
        error.code = Code::unsupported_schema;
        error.message += "; run settle migrate on this database";
    } else if (state.starts_with("08") || one_of(state, {"57P01", "57P02", "57P03", "53300"})) {
        error.code = Code::database_unreachable;
    }
    return error;
}

Error unreachable(std::string_view doing, const pg_conn* connection, const std::vector<std::string>& secrets) {
    std::string text = connection == nullptr ? "out of memory" : one_line(PQerrorMessage(connection));
    for (const std::string& secret : secrets) {
        for (std::size_t at = text.find(secret); !secret.empty() && at != std::string::npos;
             at = text.find(secret, at)) {
            text.replace(at, secret.size(), "***");
            at += 3;
        }
    }
    if (text.empty()) {
        text = "no answer";
    }
    return Error{.code = Code::database_unreachable,
                 .message = fmt::format("{}: {}", doing, text),
                 .sqlstate = {},
                 .detail = {}};
}

}  // namespace settle::pg
