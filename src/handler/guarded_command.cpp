#include "handler/guarded_command.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "handler/guard.hpp"

namespace settle::handler {
namespace {

using namespace std::chrono_literals;

constexpr auto guard_slack = 2s;  // how late a guard may be before it is taken for frozen
constexpr auto kill_wait = 10s;   // for a killed process to be gone

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    pointers.reserve(texts.size() + 1);
    for (std::string& text : texts) {
        pointers.push_back(text.data());
    }
    pointers.push_back(nullptr);
    return pointers;
}

std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& variables) {
    std::vector<std::string> environment;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text{*entry};
        const std::string_view name = text.substr(0, text.find('='));
        if (std::ranges::none_of(variables, [&](const auto& variable) { return variable.first == name; })) {
            environment.emplace_back(text);
        }
    }
    for (const auto& [name, value] : variables) {
        environment.push_back(fmt::format("{}={}", name, value));
    }
    return environment;
}

// The controlling terminal, whatever the standard streams are; closed where there is none.
Descriptor open_terminal() {
    return Descriptor{open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)};
}

// This process's group has the terminal, and its output is read there too: with a pager behind it the terminal is the
// pager's, until the command asks for it.
bool may_give_terminal(const Descriptor& terminal) {
    return terminal.is_open() && isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0 &&
           tcgetpgrp(terminal.number()) == getpgrp();
}

// Waits until the child is a zombie; false where it is none of ours or does not end in time.
bool wait_until_ended(pid_t child, std::chrono::milliseconds time) noexcept {
    const Descriptor handle{static_cast<int>(syscall(SYS_pidfd_open, child, 0))};
    if (!handle.is_open()) {
        return false;
    }
    pollfd file{handle.number(), POLLIN, 0};
    return poll(&file, 1, static_cast<int>(time.count())) == 1;
}

std::int64_t ns_of(BootClock::time_point time) noexcept {
    return time.time_since_epoch().count();
}

}  // namespace

GuardedCommand::GuardedCommand(const CommandSpec& spec, SignalGate& signals, Pipe out, Pipe err)
    : signals_(signals),
      out_(std::move(out.read_end), spec.output_to_stderr ? STDERR_FILENO : STDOUT_FILENO),
      err_(std::move(err.read_end), STDERR_FILENO),
      kill_at_(spec.window.kill_at) {}

Result<std::unique_ptr<GuardedCommand>> GuardedCommand::start(const CommandSpec& spec, SignalGate& signals) {
    std::array<Pipe, 4> pipes;
    for (Pipe& pipe : pipes) {
        auto made = make_pipe();
        if (!made) {
            return std::unexpected{made.error()};
        }
        pipe = std::move(*made);
    }
    auto& [orders, reports, out, err] = pipes;
    set_non_blocking(orders.write_end);  // a frozen guard must not freeze the heartbeat
    Descriptor terminal = open_terminal();
    std::vector<std::string> arguments = spec.arguments;
    std::vector<std::string> shell_arguments{"sh", spec.path};
    shell_arguments.insert(shell_arguments.end(), arguments.begin() + 1, arguments.end());
    std::vector<std::string> environment = environment_with(spec.variables);
    const std::vector<char*> argument_pointers = pointers_to(arguments);
    const std::vector<char*> shell_pointers = pointers_to(shell_arguments);
    const std::vector<char*> environment_pointers = pointers_to(environment);
    const GuardPlan plan{.path = spec.path.c_str(),
                         .arguments = argument_pointers.data(),
                         .shell_arguments = shell_pointers.data(),
                         .environment = environment_pointers.data(),
                         .orders = orders.read_end.number(),
                         .reports = reports.write_end.number(),
                         .out = out.write_end.number(),
                         .err = err.write_end.number(),
                         .original_mask = signals.original_mask(),
                         .window = spec.window,
                         .time_limit_at = spec.time_limit_at,
                         .grace = spec.grace,
                         .terminal = may_give_terminal(terminal) ? terminal.number() : -1};
    // If the guard is killed, the command passes to this process instead of to init: its number stays taken until it
    // is reaped here, so that a signal can never meet a stranger.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    signal(SIGCHLD, SIG_DFL);  // inherited as ignored, it would reap children by itself
    const pid_t guard = fork();
    if (guard < 0) {
        return fail(Code::internal, fmt::format("no process could be made for the command: {}",
                                                std::generic_category().message(errno)));
    }
    if (guard == 0) {
        orders.write_end.close();  // or the program's death would not be seen
        _exit(run_guard(plan));
    }
    setpgid(guard, guard);
    std::unique_ptr<GuardedCommand> command{new GuardedCommand{spec, signals, std::move(out), std::move(err)}};
    command->orders_ = std::move(orders.write_end);
    command->reports_ = std::move(reports.read_end);
    command->terminal_ = std::move(terminal);
    command->guard_ = guard;
    command->terminal_given_ = plan.terminal >= 0;
    command->end_.had_terminal = plan.terminal >= 0;
    return command;
}

GuardedCommand::~GuardedCommand() {
    if (!ended_) {
        kill(guard_, SIGKILL);
        guard_lost();
    }
}

void GuardedCommand::order(const Order& order) noexcept {
    [[maybe_unused]] const ssize_t written = write(orders_.number(), &order, sizeof order);
}

void GuardedCommand::extend(const TrustWindow& window) noexcept {
    kill_at_ = window.kill_at;
    order({.kind = Order::Kind::window, .stop_at_ns = ns_of(window.stop_at), .kill_at_ns = ns_of(window.kill_at)});
}

void GuardedCommand::stop() noexcept {
    order({.kind = Order::Kind::stop});
}

CommandEnd GuardedCommand::wait() {
    while (!ended_) {
        wait_for_events();
    }
    take_terminal();
    out_.drain();
    err_.drain();
    end_.out = out_.kept().text();
    end_.err = err_.kept().text();
    return end_;
}

void GuardedCommand::flush_output() {
    out_.flush(signals_);
    err_.flush(signals_);
}

void GuardedCommand::wait_for_events() {
    std::array<pollfd, 6> files{pollfd{reports_.number(), POLLIN, 0},
                                pollfd{signals_.descriptor(), POLLIN, 0},
                                out_.source(),
                                err_.source(),
                                out_.target(),
                                err_.target()};
    const auto until_watch = std::clamp<BootClock::duration>(kill_at_.load() + guard_slack - BootClock::now(), 0s, 60s);
    const auto time = std::chrono::ceil<std::chrono::milliseconds>(until_watch);
    if (poll(files.data(), files.size(), static_cast<int>(time.count())) < 0) {
        return;
    }
    const auto ready = [&](std::size_t index) { return files[index].revents != 0; };
    if (ready(2)) {
        out_.read_some();
    }
    if (ready(3)) {
        err_.read_some();
    }
    if (ready(4)) {
        out_.write_some();
    }
    if (ready(5)) {
        err_.write_some();
    }
    if (ready(1)) {
        pass_signals();
    }
    if (ready(0)) {
        if (!take_report()) {
            guard_lost();
        }
    } else if (BootClock::now() >= kill_at_.load() + guard_slack) {
        // The window is over and the guard has not spoken: it is frozen. With its death the kernel kills the command.
        end_.stopped = end_.stopped == StopReason::none ? StopReason::window_ended : end_.stopped;
        kill(guard_, SIGKILL);
        guard_lost();
    }
}

void GuardedCommand::pass_signals() noexcept {
    while (const auto signal = signals_.take()) {
        if (asks_to_end(*signal)) {
            end_.forwarded_signal = *signal;
        }
        order({.kind = Order::Kind::signal, .signal = *signal});
    }
}

// False at the end of the reports: the guard is gone without having told the command's end.
bool GuardedCommand::take_report() {
    Report report;
    const ssize_t size = read(reports_.number(), &report, sizeof report);
    if (size < 0 && errno == EINTR) {
        return true;
    }
    if (size != sizeof report) {
        return false;
    }
    switch (report.kind) {
        case Report::Kind::forked:
            command_ = report.pid;
            break;
        case Report::Kind::started:
            started_ = true;
            break;
        case Report::Kind::not_started:
            end_.how = CommandEnd::How::not_started;
            end_.value = report.value;
            ended_ = true;
            reap();
            break;
        case Report::Kind::suspended:
            if (!guard_gone_) {
                suspended(report.value);
            }
            break;
        case Report::Kind::stopping:
            end_.stopped = report.reason;
            break;
        case Report::Kind::ended:
            end_.how = report.code == CLD_EXITED ? CommandEnd::How::exited : CommandEnd::How::killed;
            end_.value = report.value;
            ended_ = true;
            reap();
            break;
    }
    return true;
}

// The command was stopped by its terminal. Where it only wants the terminal and this process has it, it gets it; where
// the user has suspended it, this process stops too, so that the shell takes over. The lease goes on lapsing then.
void GuardedCommand::suspended(int signal) noexcept {
    const bool wants_terminal = signal == SIGTTIN || signal == SIGTTOU;
    if (!wants_terminal && signal != SIGTSTP) {
        return;
    }
    if (!(wants_terminal && !terminal_given_ && tcgetpgrp(terminal_.number()) == getpgrp())) {
        const bool give_back = terminal_given_;
        take_terminal();
        kill(getpid(), SIGSTOP);
        if (give_back && tcgetpgrp(terminal_.number()) == getpgrp()) {
            give_terminal();
        }
    } else {
        give_terminal();
    }
    order({.kind = Order::Kind::signal, .signal = SIGCONT});
}

void GuardedCommand::give_terminal() noexcept {
    terminal_given_ = tcsetpgrp(terminal_.number(), command_) == 0;
    end_.had_terminal = end_.had_terminal || terminal_given_;
}

void GuardedCommand::take_terminal() noexcept {
    if (terminal_given_ && command_ != 0 && tcgetpgrp(terminal_.number()) == command_) {
        tcsetpgrp(terminal_.number(), getpgrp());  // SIGTTOU is blocked by the gate
    }
    terminal_given_ = false;
}

void GuardedCommand::reap() noexcept {
    if (!guard_gone_) {
        waitpid(guard_, nullptr, 0);
    }
    if (command_ != 0) {
        waitpid(command_, nullptr, WNOHANG);
    }
}

void GuardedCommand::guard_lost() {
    waitpid(guard_, nullptr, 0);  // once this returns, the command has become a child of this process
    guard_gone_ = true;
    // The last reports may still lie in the pipe: the command's number, why it was being stopped, even its end.
    while (!ended_ && take_report()) {
    }
    if (ended_) {
        return;
    }
    ended_ = true;
    if (command_ == 0) {
        return;
    }
    kill(-command_, SIGKILL);
    siginfo_t end{};
    if (!wait_until_ended(command_, kill_wait) ||
        waitid(P_PID, static_cast<id_t>(command_), &end, WEXITED | WNOHANG) != 0 || end.si_pid == 0) {
        return;
    }
    // A command that had ended by itself before has a status as good as any; one killed here has none, and a process
    // that had not yet become the command ends with a status that is not the command's.
    if (started_ && end.si_code == CLD_EXITED && end_.stopped == StopReason::none) {
        end_.how = CommandEnd::How::exited;
        end_.value = end.si_status;
    }
}

}  // namespace settle::handler
