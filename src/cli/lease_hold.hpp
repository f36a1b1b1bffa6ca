// settle lease hold: a command under a lease.
#pragma once

#include "cli/commands.hpp"

namespace settle::cli {

int hold_command(const Context& context, const LeaseOptions& options);

}  // namespace settle::cli
