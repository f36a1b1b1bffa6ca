#include "cli/lease_hold.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <memory>
#include <system_error>

#include "base/text.hpp"
#include "base/trust_window.hpp"
#include "cli/plain.hpp"
#include "cli/reconnecting.hpp"
#include "cli/wording.hpp"
#include "engine/heartbeat.hpp"
#include "handler/command_path.hpp"
#include "handler/guarded_command.hpp"
#include "store/lease.hpp"

namespace settle::cli {
namespace {

using namespace std::chrono_literals;
using handler::CommandEnd;
using handler::StopReason;

constexpr auto shortest_ttl = 1s;   // a shorter one leaves no time to renew twice
constexpr auto call_wait = 15s;     // one call, a wait for the row included
constexpr auto release_wait = 20s;  // then the lease lapses by itself
constexpr int signal_status = 128;  // as shells report an end by a signal

struct Hold {
    store::ResourceName name;
    std::string holder;
    std::chrono::milliseconds ttl{};
    std::int64_t token = 0;
    BootClock::time_point sent_at;
};

struct HoldDocument {
    std::string outcome;  // released | not_released | held | lost | not_started
    std::optional<int> exit_status;
    std::optional<std::string> holder;
    std::optional<std::int64_t> token;
    std::optional<std::string> lease_until;
};

int answer(const Context& context, const std::string& resource, const HoldDocument& document) {
    if (context.json) {
        const auto until = document.lease_until ? std::optional{rfc3339(*document.lease_until)} : std::nullopt;
        print(safe_json(fmt::format(
            R"({{"outcome":{},"namespace":{},"resource":{},"token":{},"holder":{},"lease_until":{},"exit_status":{}}})",
            json_string(document.outcome), json_string(context.name_space), json_string(resource),
            json_or_null(document.token), json_or_null(document.holder), json_or_null(until),
            json_or_null(document.exit_status))));
    }
    if (document.outcome == "lost") {
        return info(Code::stale_token).exit_status;
    }
    return document.outcome == "held" ? 1 : document.exit_status.value_or(1);
}

Result<Hold> checked(const Context& context, const LeaseOptions& options) {
    if (options.resource.empty()) {
        return invalid_argument("resource", "is empty; name what the lease is for");
    }
    if (options.command.empty()) {
        return invalid_argument("command", "nothing to run; the command stands after `--`");
    }
    const auto ttl = parse_duration("--ttl", options.ttl);
    if (!ttl) {
        return std::unexpected{ttl.error()};
    }
    if (*ttl < shortest_ttl) {
        return invalid_argument("--ttl", fmt::format("{} is less than {}: a renewal could not be tried twice",
                                                     options.ttl, format_duration(shortest_ttl)));
    }
    return Hold{.name = {.name_space = context.name_space, .resource = options.resource},
                .holder = options.holder.empty() ? unique_holder() : options.holder,
                .ttl = *ttl,
                .token = 0,
                .sent_at = {}};
}

// Where an answer was lost, a lease that is held under a name only this process has is its own. Under a name that the
// user gave it may be another's of that name.
Result<store::LeaseAnswer> acquire(Reconnecting& database, Hold& hold, bool own_name) {
    const Deadline deadline = Deadline::in(call_wait);
    Backoff backoff;
    hold.sent_at = BootClock::now();
    for (;;) {
        auto connection = database.get();
        auto answer = connection ? store::acquire_lease(**connection, hold.name, hold.holder, hold.ttl, deadline)
                                 : Result<store::LeaseAnswer>{std::unexpected{connection.error()}};
        if (answer && answer->outcome == "held" && own_name && answer->holder == hold.holder) {
            answer->outcome = "granted";
        }
        if (answer || !is_passing(answer.error()) || deadline.passed()) {
            return answer;
        }
        poll(nullptr, 0, static_cast<int>(backoff.next().count()));
    }
}

Result<engine::Beat> renew(Reconnecting& database, const Hold& hold, Deadline deadline) {
    auto connection = database.get(deadline);
    if (!connection) {
        return std::unexpected{connection.error()};
    }
    auto answer = store::renew_lease(**connection, hold.name, hold.holder, hold.token, hold.ttl, deadline);
    if (!answer) {
        return std::unexpected{answer.error()};
    }
    return answer->outcome == "renewed" ? engine::Beat::renewed : engine::Beat::lost;
}

Result<store::LeaseAnswer> release(const Context& context, const Hold& hold, handler::SignalGate& signals) {
    Reconnecting database{context};
    const Deadline deadline = Deadline::in(release_wait);
    Backoff backoff;
    for (;;) {
        auto connection = database.get();
        auto answer =
            connection ? store::release_lease(**connection, hold.name, hold.holder, hold.token, Deadline::in(call_wait))
                       : Result<store::LeaseAnswer>{std::unexpected{connection.error()}};
        if (answer || !is_passing(answer.error()) || deadline.passed()) {
            return answer;
        }
        signals.wait(backoff.next());
        if (signals.take()) {
            return answer;
        }
    }
}

handler::CommandSpec command_spec(const Context& context, const LeaseOptions& options, const Hold& hold,
                                  const std::string& path) {
    handler::CommandSpec spec;
    spec.path = path;
    spec.arguments = options.command;
    spec.variables = {{"SETTLE_RESOURCE", outside_name(context, hold.name.resource)},
                      {"SETTLE_TOKEN", std::to_string(hold.token)}};
    spec.window = trust_window(hold.sent_at, hold.ttl);
    spec.grace = stop_grace(hold.ttl);
    spec.output_to_stderr = context.json;
    return spec;
}

// The lease's loss, or what the command itself ended with.
int exit_status_of(const CommandEnd& end) {
    switch (end.how) {
        case CommandEnd::How::exited:
            return end.value;
        case CommandEnd::How::killed:
            return signal_status + end.value;
        case CommandEnd::How::not_started:
            return end.value == ENOENT || end.value == ENOTDIR ? 127 : 126;
        case CommandEnd::How::lost:
            break;
    }
    return signal_status + SIGKILL;
}

int run_under(const Context& context, const LeaseOptions& options, const Hold& hold, const std::string& path,
              const std::shared_ptr<Reconnecting>& database, handler::SignalGate& signals) {
    HoldDocument document{
        .outcome = "released", .exit_status = {}, .holder = hold.holder, .token = hold.token, .lease_until = {}};
    auto command = handler::GuardedCommand::start(command_spec(context, options, hold, path), signals);
    if (!command) {
        static_cast<void>(release(context, hold, signals));
        return report(context, command.error());
    }
    CommandEnd end;
    bool lost = false;
    {
        const engine::Heartbeat heartbeat{{.lease = hold.ttl,
                                           .granted_at = hold.sent_at,
                                           .renew = [&](Deadline deadline) { return renew(*database, hold, deadline); },
                                           .on_renewed = [&](const TrustWindow& window) { (*command)->extend(window); },
                                           .on_lost = [&] { (*command)->stop(); }}};
        end = (*command)->wait();
        lost = heartbeat.lost();
    }
    (*command)->flush_output();
    if (end.stopped != StopReason::none || (lost && end.how == CommandEnd::How::lost)) {
        document.outcome = "lost";
        warn(fmt::format("{}: {}: the lease was lost and the command was stopped", info(Code::stale_token).name,
                         options.resource));
        return answer(context, options.resource, document);
    }
    document.exit_status = exit_status_of(end);
    if (end.how == CommandEnd::How::not_started) {
        document.outcome = "not_started";
        warn(fmt::format("{}: {}; nothing was run", options.command.front(),
                         std::generic_category().message(end.value)));
    }
    const auto released = release(context, hold, signals);
    if (!released) {
        document.outcome = "not_released";
        warn(fmt::format("{}: the lease could not be released and lapses by itself in {} at most: {}", options.resource,
                         format_duration(hold.ttl), released.error().message));
    } else if (released->outcome == "lost") {
        // The command ended by itself, inside the window: only the telling came late.
        document.outcome = "not_released";
        warn(fmt::format("{}: the lease had lapsed by the time it was to be released", options.resource));
    }
    return answer(context, options.resource, document);
}

}  // namespace

int hold_command(const Context& context, const LeaseOptions& options) {
    auto hold = checked(context, options);
    if (!hold) {
        return report(context, hold.error());
    }
    const auto path = handler::find_command(options.command.front());
    if (!path) {
        warn(path.error().message);
        return answer(context, options.resource,
                      {.outcome = "not_started",
                       .exit_status = path.error().exit_status,
                       .holder = {},
                       .token = {},
                       .lease_until = {}});
    }
    auto connection = connect(context);
    if (!connection) {
        return report(context, connection.error());
    }
    handler::SignalGate signals;
    const auto database = std::make_shared<Reconnecting>(context, std::move(*connection));
    const auto acquired = acquire(*database, *hold, options.holder.empty());
    if (!acquired) {
        return report(context, acquired.error());
    }
    if (acquired->outcome != "granted") {
        warn(acquired->holder
                 ? fmt::format("{} is not free: {} holds it until {}; nothing was run", options.resource,
                               *acquired->holder, rfc3339(acquired->lease_until.value_or("?")))
                 : fmt::format("{} is not free: another is taking it right now; nothing was run", options.resource));
        return answer(context, options.resource,
                      {.outcome = "held",
                       .exit_status = {},
                       .holder = acquired->holder,
                       .token = acquired->token,
                       .lease_until = acquired->lease_until});
    }
    hold->token = acquired->token.value_or(0);
    return run_under(context, options, *hold, *path, database, signals);
}

}  // namespace settle::cli
