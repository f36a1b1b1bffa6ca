// settle list: operations by filter, newest first.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/limits.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/plain.hpp"
#include "store/inspect.hpp"

namespace settle::cli {
namespace {

constexpr std::array<std::string_view, 7> statuses{"pending",   "running", "succeeded", "failed",
                                                   "cancelled", "unknown", "review"};
constexpr int most_rows = 1000;
constexpr std::size_t note_bytes = 80;

Result<void> check(const ListOptions& options) {
    if (options.status && std::ranges::find(statuses, *options.status) == statuses.end()) {
        return invalid_argument("status",
                                fmt::format("\"{}\" is none of {}", *options.status, fmt::join(statuses, ", ")));
    }
    if (options.limit < 1 || options.limit > most_rows) {
        return invalid_argument("limit", fmt::format("{} is outside 1 to {}", options.limit, most_rows));
    }
    return {};
}

// What is most worth knowing about it in a few words.
std::string note(const store::ListedOperation& operation) {
    if (operation.failure_code) {
        return excerpt(*operation.failure_code, note_bytes);
    }
    if (operation.error_code && operation.status != "succeeded") {
        return excerpt(fmt::format("{}: {}", *operation.error_code, operation.error_message.value_or("")), note_bytes);
    }
    return operation.result_ref ? excerpt(*operation.result_ref, note_bytes) : std::string{};
}

std::string listing(const std::vector<store::ListedOperation>& found) {
    if (found.empty()) {
        return "no operations";
    }
    std::vector<std::vector<std::string>> rows{
        {"STATUS", "KEY", "KIND", "ATTEMPTS", "CREATED", "NEXT ATTEMPT", "NOTE"}};
    for (const auto& operation : found) {
        rows.push_back({operation.status, printable(operation.key), printable(operation.kind.value_or("-")),
                        std::to_string(operation.attempt_count), operation.created_at,
                        operation.next_attempt_at.value_or("-"), note(operation)});
    }
    return table(rows);
}

}  // namespace

int list_command(const Context& context, const ListOptions& options) {
    if (auto valid = check(options); !valid) {
        return report(context, valid.error());
    }
    auto connection = connect(context);
    if (!connection) {
        return report(context, connection.error());
    }
    auto found = store::list(
        *connection,
        {.name_space = context.name_space, .status = options.status, .kind = options.kind, .limit = options.limit},
        Deadline::in(limits::statement_wait));
    if (!found) {
        return report(context, found.error());
    }
    if (context.json) {
        std::vector<std::string> documents;
        documents.reserve(found->size());
        for (auto& operation : *found) {
            documents.push_back(std::move(operation.document));
        }
        print(safe_json(json_array(documents)));
    } else {
        print(listing(*found));
    }
    return 0;
}

}  // namespace settle::cli
