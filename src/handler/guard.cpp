#include "handler/guard.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "handler/guard_protocol.hpp"
#include "handler/process_tree.hpp"
#include "handler/signal_gate.hpp"

namespace settle::handler {
namespace {

using namespace std::chrono_literals;

constexpr auto leftover_wait = 2s;  // for killed processes to be gone; one in an uninterruptible wait may take longer

// Closes what the guard does not need: a file of the program that it kept open would hide the program's end.
void close_all_but(std::array<int, 5> kept) noexcept {
    std::ranges::sort(kept);
    unsigned int from = 3;
    for (const int number : kept) {
        if (number < 0) {
            continue;
        }
        const auto keep = static_cast<unsigned int>(number);
        if (keep > from) {
            close_range(from, keep - 1, 0);
        }
        from = std::max(from, keep + 1);
    }
    close_range(from, ~0U, 0);
    const int nothing = open("/dev/null", O_RDWR);
    for (int stream = 0; stream < 3 && nothing >= 0; ++stream) {
        dup2(nothing, stream);
    }
    if (nothing > 2) {
        close(nothing);
    }
}

[[noreturn]] void become_command(const GuardPlan& plan, pid_t guard, int error_pipe) noexcept {
    // The signal is armed before the look at the parent, so that its death cannot fall between the two.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != guard) {
        kill(getpid(), SIGKILL);
    }
    setpgid(0, 0);
    if (plan.terminal >= 0) {
        tcsetpgrp(plan.terminal, getpid());  // SIGTTOU is still blocked here
    }
    dup2(plan.out, STDOUT_FILENO);
    dup2(plan.err, STDERR_FILENO);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &plan.original_mask, nullptr);
    execve(plan.path, plan.arguments, plan.environment);
    if (errno == ENOEXEC) {
        execve("/bin/sh", plan.shell_arguments, plan.environment);
    }
    const int error = errno;
    [[maybe_unused]] const ssize_t written = write(error_pipe, &error, sizeof error);
    _exit(127);
}

class Guard {
public:
    explicit Guard(const GuardPlan& plan) noexcept : plan_(plan), window_(plan.window) {}

    int run() noexcept {
        if (!set_up()) {
            report({.kind = Report::Kind::not_started, .value = errno});
            return 1;
        }
        while (!finished()) {
            check_time();
            wait_for_events();
        }
        if (started_) {
            report({.kind = Report::Kind::ended,
                    .pid = command_,
                    .code = end_.si_code,
                    .value = end_.si_status,
                    .reason = reason_});
        }
        // The command stays unreaped: it passes to the program, which until then may use its process group's number.
        return 0;
    }

private:
    bool set_up() noexcept;
    void check_time() noexcept;
    void wait_for_events() noexcept;
    void take_orders() noexcept;
    void take_exec_error() noexcept;
    void take_child_changes() noexcept;
    void command_ended() noexcept;
    void begin_stop(StopReason reason) noexcept;
    void kill_everything() noexcept;
    bool others_left() noexcept;
    bool finished() noexcept;
    [[nodiscard]] BootClock::time_point next_time() const noexcept;

    void signal_group(int signal) noexcept {
        kill(-command_, signal);  // never a stranger's: the command is not reaped before the guard ends
    }
    void report(Report message) noexcept {
        [[maybe_unused]] const ssize_t written = write(plan_.reports, &message, sizeof message);
    }

    const GuardPlan& plan_;
    TrustWindow window_;
    pid_t command_ = 0;
    int child_signals_ = -1;
    int timer_ = -1;
    int exec_error_ = -1;
    int orders_ = -1;
    bool started_ = false;
    bool ended_ = false;
    bool interrupted_ = false;  // a signal that asks to end was passed on
    bool killed_ = false;
    siginfo_t end_{};
    StopReason reason_ = StopReason::none;
    std::optional<BootClock::time_point> kill_at_;  // once something has been asked to end
    BootClock::time_point give_up_at_ = BootClock::time_point::max();
};

bool Guard::set_up() noexcept {
    prctl(PR_SET_NAME, "settle-guard");
    prctl(PR_SET_CHILD_SUBREAPER, 1);  // what has left the command's group is found here when its parent ends
    setpgid(0, 0);                     // a signal to the program's group, SIGSTOP too, is not meant for the guard
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, nullptr);
    signal(SIGCHLD, SIG_DFL);
    sigset_t child_signal;
    sigemptyset(&child_signal);
    sigaddset(&child_signal, SIGCHLD);
    child_signals_ = signalfd(-1, &child_signal, SFD_CLOEXEC | SFD_NONBLOCK);
    timer_ = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    std::array<int, 2> error_pipe{};
    if (child_signals_ < 0 || timer_ < 0 || pipe2(error_pipe.data(), O_CLOEXEC) != 0) {
        return false;
    }
    orders_ = plan_.orders;
    exec_error_ = error_pipe[0];
    const pid_t guard = getpid();
    command_ = fork();
    if (command_ < 0) {
        return false;
    }
    if (command_ == 0) {
        become_command(plan_, guard, error_pipe[1]);
    }
    close(error_pipe[1]);         // by itself: its end must be seen also where close_range is refused
    setpgid(command_, command_);  // the command does the same: whoever comes first
    report({.kind = Report::Kind::forked, .pid = command_});
    close_all_but({orders_, plan_.reports, child_signals_, timer_, exec_error_});
    return true;
}

void Guard::check_time() noexcept {
    const auto now = BootClock::now();
    if (!kill_at_) {
        if (now >= window_.stop_at) {
            begin_stop(StopReason::window_ended);
        } else if (plan_.time_limit_at && now >= *plan_.time_limit_at) {
            begin_stop(StopReason::time_limit);
        }
    }
    if (kill_at_ && !killed_ && now >= std::min(*kill_at_, window_.kill_at)) {
        kill_everything();
    }
}

BootClock::time_point Guard::next_time() const noexcept {
    if (killed_) {
        return ended_ ? give_up_at_ : BootClock::time_point::max();
    }
    if (kill_at_) {
        return std::min(*kill_at_, window_.kill_at);
    }
    return std::min(window_.stop_at, plan_.time_limit_at.value_or(BootClock::time_point::max()));
}

void Guard::wait_for_events() noexcept {
    // A timer, not poll's own time-out: only a timer can count while the machine sleeps.
    const auto next = std::max<BootClock::duration>(next_time().time_since_epoch(), 1ns);
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(next);
    itimerspec time{};
    time.it_value.tv_sec = seconds.count();
    time.it_value.tv_nsec = (next - seconds).count();
    timerfd_settime(timer_, TFD_TIMER_ABSTIME, &time, nullptr);

    std::array<pollfd, 4> files{pollfd{child_signals_, POLLIN, 0}, pollfd{timer_, POLLIN, 0},
                                pollfd{orders_, POLLIN, 0}, pollfd{exec_error_, POLLIN, 0}};
    if (poll(files.data(), files.size(), -1) < 0) {
        return;
    }
    if (files[3].revents != 0) {
        take_exec_error();
    }
    if (files[2].revents != 0) {
        take_orders();
    }
    if (files[0].revents != 0) {
        take_child_changes();
    }
}

void Guard::take_exec_error() noexcept {
    int error = 0;
    const ssize_t size = read(exec_error_, &error, sizeof error);
    close(exec_error_);
    exec_error_ = -1;
    if (size == sizeof error) {
        report({.kind = Report::Kind::not_started, .pid = command_, .value = error});
        return;
    }
    started_ = true;  // the pipe was closed by a successful exec, or with the process
    report({.kind = Report::Kind::started, .pid = command_});
}

void Guard::take_orders() noexcept {
    Order order;
    const ssize_t size = read(orders_, &order, sizeof order);
    if (size != sizeof order) {
        if (size == 0) {
            orders_ = -1;
            begin_stop(StopReason::parent_gone);
        }
        return;
    }
    switch (order.kind) {
        case Order::Kind::window: {
            const BootClock::time_point stop_at{std::chrono::nanoseconds{order.stop_at_ns}};
            if (stop_at > window_.stop_at) {
                window_ = {stop_at, BootClock::time_point{std::chrono::nanoseconds{order.kill_at_ns}}};
            }
            break;
        }
        case Order::Kind::stop:
            begin_stop(StopReason::told);
            break;
        case Order::Kind::signal:
            interrupted_ = interrupted_ || asks_to_end(order.signal);
            if (!ended_) {
                signal_group(order.signal);
            }
            break;
    }
}

void Guard::begin_stop(StopReason reason) noexcept {
    if (reason_ != StopReason::none || ended_) {
        return;
    }
    reason_ = reason;
    report({.kind = Report::Kind::stopping, .pid = command_, .reason = reason});
    kill_at_ = std::min(kill_at_.value_or(BootClock::time_point::max()), BootClock::now() + plan_.grace);
    signal_group(SIGTERM);
    signal_group(SIGCONT);  // a suspended process sees SIGTERM only when it goes on
}

void Guard::take_child_changes() noexcept {
    signalfd_siginfo ignored{};
    while (read(child_signals_, &ignored, sizeof ignored) == sizeof ignored) {
    }
    if (!ended_) {
        siginfo_t change{};
        if (waitid(P_PID, static_cast<id_t>(command_), &change, WSTOPPED | WNOHANG) == 0 && change.si_pid != 0) {
            report({.kind = Report::Kind::suspended, .pid = command_, .value = change.si_status});
        }
        end_ = {};
        if (waitid(P_PID, static_cast<id_t>(command_), &end_, WEXITED | WNOWAIT | WNOHANG) == 0 && end_.si_pid != 0) {
            command_ended();
        }
    }
    const Children children = list_children();
    for (std::size_t i = 0; i < children.count; ++i) {
        if (children.pids[i] != command_) {
            waitpid(children.pids[i], nullptr, WNOHANG);
        }
    }
    if (killed_) {
        kill_everything();  // killing parents brings their children here
    }
}

void Guard::command_ended() noexcept {
    ended_ = true;
    give_up_at_ = BootClock::now() + plan_.grace + leftover_wait;
    if (exec_error_ >= 0) {
        take_exec_error();
    }
    const bool asked_to_end = reason_ != StopReason::none || interrupted_ || end_.si_code != CLD_EXITED;
    if (!asked_to_end) {
        kill_everything();  // the operation is over with its command: nothing of it may act on
        return;
    }
    // The rest of the group was asked too and may still be tidying up: a shell often dies before its program. A signal
    // that struck the command alone is followed by the request.
    if (reason_ == StopReason::none && !interrupted_ && !asks_to_end(end_.si_status)) {
        signal_group(SIGTERM);
        signal_group(SIGCONT);
    }
    kill_at_ = std::min(kill_at_.value_or(BootClock::time_point::max()), BootClock::now() + plan_.grace);
}

void Guard::kill_everything() noexcept {
    killed_ = true;
    signal_group(SIGKILL);
    const Children children = list_children();
    for (std::size_t i = 0; i < children.count; ++i) {
        if (children.pids[i] != command_ || !ended_) {
            kill(children.pids[i], SIGKILL);
        }
    }
}

bool Guard::others_left() noexcept {
    for (int look = 0; look < 2; ++look) {
        const Children children = list_children();
        for (std::size_t i = 0; i < children.count; ++i) {
            if (children.pids[i] != command_ && waitpid(children.pids[i], nullptr, WNOHANG) == 0) {
                return true;
            }
        }
    }
    return false;
}

bool Guard::finished() noexcept {
    if (!ended_) {
        return false;
    }
    return !others_left() || (killed_ && BootClock::now() >= give_up_at_);
}

}  // namespace

int run_guard(const GuardPlan& plan) noexcept {
    Guard guard{plan};
    return guard.run();
}

}  // namespace settle::handler
