// The small process between a program and its command. It is the command's parent and outlives the program's freezing
// or death: it stops the command's whole process group, and what has left the group, before the trust window ends.
#pragma once

#include <signal.h>

#include <optional>

#include "base/trust_window.hpp"

namespace settle::handler {

// Everything the guard needs, made before the fork: after it nothing is allocated.
struct GuardPlan {
    const char* path = nullptr;
    char* const* arguments = nullptr;
    char* const* shell_arguments = nullptr;  // for a script without an interpreter line, as shells run it
    char* const* environment = nullptr;
    int orders = -1;   // read end
    int reports = -1;  // write end
    int out = -1;
    int err = -1;
    sigset_t original_mask{};  // the command's
    TrustWindow window;
    std::optional<BootClock::time_point> time_limit_at;
    BootClock::duration grace{};  // between SIGTERM and SIGKILL; less where the window ends sooner
    int terminal = -1;            // whose foreground group the command's becomes; -1: none
};

// Runs in the forked child. Returns the guard's own exit status, to be passed to _exit.
int run_guard(const GuardPlan& plan) noexcept;

}  // namespace settle::handler
