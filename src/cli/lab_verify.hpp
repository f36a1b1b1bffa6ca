// settle lab verify.
#pragma once

#include <string>

#include "cli/context.hpp"

namespace settle::cli {

// Proves on a freshly initialised laboratory, with real concurrency, what Settle promises. The exit status.
int verify_laboratory(const Context& context, const std::string& schema);

}  // namespace settle::cli
