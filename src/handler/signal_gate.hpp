// Holds back the signals that ask this process to end, so that they can be passed on to a command instead.
#pragma once

#include <signal.h>

#include <chrono>
#include <optional>
#include <string>

#include "handler/descriptor.hpp"

namespace settle::handler {

// From construction to destruction SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGTSTP wait to be taken; one that was ignored
// before (as under nohup) stays ignored. Make it before the first thread: threads inherit it. SIGPIPE is ignored and
// SIGTTOU blocked meanwhile.
class SignalGate {
public:
    SignalGate();
    SignalGate(const SignalGate&) = delete;
    SignalGate& operator=(const SignalGate&) = delete;
    SignalGate(SignalGate&&) = delete;
    SignalGate& operator=(SignalGate&&) = delete;
    ~SignalGate();

    // Readable while a signal waits.
    [[nodiscard]] int descriptor() const noexcept { return waiting_.number(); }
    std::optional<int> take() noexcept;
    // Waits until a signal may be taken, at most `time`.
    void wait(std::chrono::milliseconds time) noexcept;
    // What a command is to start with.
    [[nodiscard]] const sigset_t& original_mask() const noexcept { return original_mask_; }

private:
    sigset_t original_mask_{};
    struct sigaction original_pipe_action_{};
    Descriptor waiting_;
};

// True for those that ask a process to end, as against to pause.
bool asks_to_end(int signal) noexcept;

// "SIGTERM"; "signal 64" for one without a name.
std::string signal_name(int signal);

}  // namespace settle::handler
