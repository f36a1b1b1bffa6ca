// What is kept of a command that has ended, as the JSON that stands in `result` or in `failure.detail`.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace settle::handler {

struct CommandResult {
    int exit_status = 0;
    std::string out;  // the kept bytes
    std::string err;
};

// {"stderr": "…", "stdout": "…", "encoding": "utf8", "exit_status": N}, in the order and spelling in which jsonb gives
// it back, so that the first answer and its replays are the same bytes. Where a stream is no UTF-8 or holds U+0000,
// which jsonb cannot, both are base64 and `encoding` says so.
std::string to_json(const CommandResult& result);

// The bytes again, or nothing where the text is another document: an answer that no command gave.
std::optional<CommandResult> command_result_of(std::string_view json);

// The same from {"code": …, "detail": …}, as a failure is stored.
std::optional<CommandResult> command_result_of_failure(std::string_view json);

}  // namespace settle::handler
