#include "handler/signal_gate.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cstring>

namespace settle::handler {
namespace {

constexpr std::array held_back{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};

bool is_ignored(int signal) noexcept {
    struct sigaction action{};
    return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

SignalGate::SignalGate() {
    sigset_t taken;
    sigemptyset(&taken);
    for (const int signal : held_back) {
        if (!is_ignored(signal)) {
            sigaddset(&taken, signal);
        }
    }
    sigset_t blocked = taken;
    sigaddset(&blocked, SIGTTOU);
    pthread_sigmask(SIG_BLOCK, &blocked, &original_mask_);
    waiting_ = Descriptor{signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK)};
    struct sigaction ignore{};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, &original_pipe_action_);
}

SignalGate::~SignalGate() {
    // What came too late to be passed on has had its answer: the command has ended.
    while (take()) {
    }
    sigaction(SIGPIPE, &original_pipe_action_, nullptr);
    pthread_sigmask(SIG_SETMASK, &original_mask_, nullptr);
}

std::optional<int> SignalGate::take() noexcept {
    signalfd_siginfo signal{};
    if (read(waiting_.number(), &signal, sizeof signal) != sizeof signal) {
        return std::nullopt;
    }
    return static_cast<int>(signal.ssi_signo);
}

void SignalGate::wait(std::chrono::milliseconds time) noexcept {
    pollfd file{waiting_.number(), POLLIN, 0};
    poll(&file, 1, static_cast<int>(time.count()));
}

bool asks_to_end(int signal) noexcept {
    return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

std::string signal_name(int signal) {
    const char* name = sigabbrev_np(signal);
    return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

}  // namespace settle::handler
