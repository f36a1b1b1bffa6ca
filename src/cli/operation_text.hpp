// One operation for a person: what it is now, what that means, what to do next, and what is known about it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/context.hpp"
#include "store/inspect.hpp"

namespace settle::cli {

std::string operation_text(const Context& context, const std::string& key, const store::Shown& shown);

// What an operation in this state asks of its reader, a line each.
std::string next_steps(const Context& context, const std::string& key, const store::Shown& shown);

// How one that waits is begun again.
std::string begun_again(std::string_view key, const std::optional<std::string>& kind);

}  // namespace settle::cli
