// What `exec` says: its document, its lines, and the replay of what a command once wrote.
#pragma once

#include <optional>
#include <string>

#include "cli/context.hpp"
#include "store/operation.hpp"

namespace settle::cli {

// The one document of `exec --json`.
struct ExecDocument {
    std::string outcome;
    std::string key;
    std::string status;
    std::optional<std::int64_t> token;
    std::optional<std::string> execution_id;
    std::optional<int> exit_status;
    std::optional<std::string> result;   // JSON
    std::optional<std::string> failure;  // JSON
    std::optional<std::string> holder;
    std::optional<std::string> lease_until;
    std::optional<std::string> next_attempt_at;
    std::optional<Error> error;  // Settle's own verdict; nothing where the command's answer stands
};

// Prints the document where one is asked for, says the error on standard error, and returns the exit status: the
// error's own, else `exit_status`.
int answer(const Context& context, const ExecDocument& document);

// Answers a beginning that started nothing: replays, or says what stands in the way.
int answer_repeat(const Context& context, const std::string& key, const store::BeginAnswer& answer);

// "look what it did, then settle it with `settle review decide …`"
std::string how_to_settle(const Context& context, const std::string& key);

}  // namespace settle::cli
