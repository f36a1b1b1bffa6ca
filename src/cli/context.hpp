// What every command is given, and how it speaks.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "pg/connection.hpp"

namespace settle::cli {

struct Context {
    std::optional<std::string> db;  // --db or SETTLE_DB; nothing means the private server
    std::string name_space = "default";
    bool json = false;
};

// A connection whose schema this program can use. Without a named database the private server is started and migrated
// first; a named one is never migrated unasked. Ends at `deadline` at the latest; each step has a limit of its own.
Result<pg::Connection> connect(const Context& context, Deadline deadline = Deadline::never());

// The URL that `connect` would use; starts and migrates the private server as it does.
Result<std::string> database_url(const Context& context);

// Prints "settle: CODE: …" on standard error (a JSON document with --json) and returns the code's exit status.
int report(const Context& context, const Error& error);

// One line (a document with --json is passed through unchanged) on standard output. A reader that went away is no
// failure; any other is kept for `finish`.
void print(std::string_view text);

// The exit status of a command that ended with `status`, once its output could not be written.
int finish(int status);

// `text` as a JSON string, quotes included; invalid bytes become visible escapes.
std::string json_string(std::string_view text);

}  // namespace settle::cli
