// From a begun execution to its recorded end.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/execution.hpp"

namespace settle::cli {

struct ExecPlan {
    std::string path;  // of the command
    std::vector<std::string> command;
    std::optional<std::chrono::milliseconds> max_time;
    Holding holding;  // without the token
};

// Runs the command under the execution that `begun` holds, and writes its end down. `database` goes to the heartbeat.
int run_execution(const Context& context, const ExecPlan& plan, const BegunExecution& begun,
                  std::shared_ptr<Reconnecting> database, handler::SignalGate& signals);

}  // namespace settle::cli
