// One operation for a person: what it is now, what that means, what to do next, and what is known about it.
#pragma once

#include <string>

#include "cli/context.hpp"
#include "store/inspect.hpp"

namespace settle::cli {

std::string operation_text(const Context& context, const std::string& key, const store::Shown& shown);

// What an operation in this state asks of its reader, a line each.
std::string next_steps(const Context& context, const std::string& key, const store::Shown& shown);

}  // namespace settle::cli
