// A command that runs under a lease: its own process group, a guard as parent, its output passed on and kept.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/trust_window.hpp"
#include "handler/descriptor.hpp"
#include "handler/guard_protocol.hpp"
#include "handler/output_relay.hpp"
#include "handler/signal_gate.hpp"

namespace settle::handler {

struct CommandSpec {
    std::string path;                                            // as find_command gave it
    std::vector<std::string> arguments;                          // with the command's own name first
    std::vector<std::pair<std::string, std::string>> variables;  // added to this process's environment
    TrustWindow window;
    std::chrono::milliseconds grace{};  // from SIGTERM to SIGKILL, where the window leaves it
    std::optional<BootClock::time_point> time_limit_at;
    bool output_to_stderr = false;  // both streams, so that standard output is free for a document
};

struct CommandEnd {
    enum class How {
        exited,       // value: its exit status
        killed,       // value: the signal
        not_started,  // value: errno; nothing of it ran
        lost,         // the guard was killed, and how the command ended is not known
    };
    How how = How::lost;
    int value = 0;
    StopReason stopped = StopReason::none;
    int forwarded_signal = 0;   // the last one that asks to end and was passed on; 0: none
    bool had_terminal = false;  // keys such as Ctrl-C reached it without passing here
    std::string out;            // the kept end of each stream
    std::string err;
};

// Start while the process has one thread. `extend` and `stop` may then be called from any thread, the rest only from
// the one that started it. If this process is frozen or killed, the guard stops the command; if the guard is killed,
// the kernel kills the command and `wait` the rest of its group.
class GuardedCommand {
public:
    static Result<std::unique_ptr<GuardedCommand>> start(const CommandSpec& spec, SignalGate& signals);
    GuardedCommand(const GuardedCommand&) = delete;
    GuardedCommand& operator=(const GuardedCommand&) = delete;
    GuardedCommand(GuardedCommand&&) = delete;
    GuardedCommand& operator=(GuardedCommand&&) = delete;
    ~GuardedCommand();

    // A confirmed renewal: the command may run on until the new window ends.
    void extend(const TrustWindow& window) noexcept;
    // The lease is lost: the command's group is stopped.
    void stop() noexcept;

    // Passes output and signals on until the command and its group are gone.
    CommandEnd wait();
    // Passes on what a slow receiver of the output has not taken yet.
    void flush_output();

private:
    GuardedCommand(const CommandSpec& spec, SignalGate& signals, Pipe out, Pipe err);

    void order(const Order& order) noexcept;
    void pass_signals() noexcept;
    bool take_report();
    void suspended(int signal) noexcept;
    void wait_for_events();
    void guard_lost();
    void reap() noexcept;
    void give_terminal() noexcept;
    void take_terminal() noexcept;

    SignalGate& signals_;
    OutputRelay out_;
    OutputRelay err_;
    Descriptor orders_;
    Descriptor reports_;
    Descriptor terminal_;  // the controlling one, where there is one
    pid_t guard_ = 0;
    pid_t command_ = 0;  // also the number of its process group
    bool terminal_given_ = false;
    bool started_ = false;
    bool guard_gone_ = false;
    bool ended_ = false;
    std::atomic<BootClock::time_point> kill_at_;
    CommandEnd end_;
};

}  // namespace settle::handler
