// settle exec: a command, once under a key.
#include <fmt/format.h>

#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/exec_answer.hpp"
#include "cli/exec_run.hpp"
#include "cli/plain.hpp"
#include "cli/wording.hpp"
#include "domain/json_text.hpp"
#include "handler/command_path.hpp"

namespace settle::cli {
namespace {

// Shorter ones leave no time for a renewal to fail once and succeed after.
constexpr auto shortest_lease = std::chrono::seconds{1};

Result<ExecPlan> checked_plan(const Context& context, const ExecOptions& options) {
    if (options.command.empty()) {
        return invalid_argument("command", "nothing to run; the command stands after `--`");
    }
    if (options.key.empty()) {
        return invalid_argument("--key", "is empty; name the business operation");
    }
    if (auto checked = check_json_text("--request", options.request); !checked) {
        return std::unexpected{checked.error()};
    }
    if (options.rerun && (options.operator_name.empty() || options.reason.empty())) {
        return invalid_argument(options.operator_name.empty() ? "--operator" : "--reason",
                                "is required with --rerun: who has it run again, and why");
    }
    if (!options.rerun && !(options.operator_name.empty() && options.reason.empty())) {
        return invalid_argument(options.operator_name.empty() ? "--reason" : "--operator", "belongs to --rerun");
    }
    ExecPlan plan;
    const auto lease = parse_duration("--lease", options.lease);
    if (!lease) {
        return std::unexpected{lease.error()};
    }
    if (*lease < shortest_lease) {
        return invalid_argument("--lease", fmt::format("{} is less than {}: a renewal could not be tried twice",
                                                       options.lease, format_duration(shortest_lease)));
    }
    if (options.max_time) {
        const auto max_time = parse_duration("--max-time", *options.max_time);
        if (!max_time) {
            return std::unexpected{max_time.error()};
        }
        plan.max_time = *max_time;
    }
    plan.command = options.command;
    plan.holding = Holding{.operation = {.name_space = context.name_space, .key = options.key},
                           .owner = unique_holder(),
                           .lease = *lease,
                           .token = 0};
    return plan;
}

ExecutionRequest request_of(const ExecOptions& options, const ExecPlan& plan) {
    ExecutionRequest request;
    request.begin = {.operation = plan.holding.operation,
                     .kind = options.kind,
                     .request = options.request,
                     .trigger = options.trigger,
                     .owner = plan.holding.owner,
                     .lease = plan.holding.lease,
                     .effect = options.repeatable ? "keyed" : "opaque"};
    request.rerun = options.rerun;
    request.operator_name = options.operator_name;
    request.reason = options.reason;
    return request;
}

int not_usable(const Context& context, const handler::CommandNotUsable& problem) {
    if (context.json) {
        print(fmt::format(R"({{"error":{{"code":{},"message":{},"detail":null}}}})",
                          json_string(info(Code::invalid_argument).name), json_string(problem.message)));
    }
    warn(problem.message);
    return problem.exit_status;
}

// The database had not said whether the operation was begun. If it was, its lease lapses by itself.
int interrupted(const Context& context, const std::string& key, int signal) {
    constexpr int signal_status = 128;
    ExecDocument document;
    document.outcome = "not_started";
    document.key = key;
    document.exit_status = signal_status + signal;
    warn(fmt::format("{}: interrupted by {} while the database did not answer; nothing was run: see `{}`", key,
                     handler::signal_name(signal), command_line(context, "show", key)));
    return answer(context, document);
}

}  // namespace

int exec_command(const Context& context, const ExecOptions& options) {
    auto plan = checked_plan(context, options);
    if (!plan) {
        return report(context, plan.error());
    }
    const auto path = handler::find_command(options.command.front());
    if (!path) {
        return not_usable(context, path.error());
    }
    plan->path = *path;
    auto connection = connect(context);
    if (!connection) {
        return report(context, connection.error());
    }
    // From here on a signal must not fall between the record and the command.
    handler::SignalGate signals;
    const auto database = std::make_shared<Reconnecting>(context, std::move(*connection));
    const auto begun = begin_execution(*database, request_of(options, *plan), signals);
    if (!begun) {
        return report(context, begun.error());
    }
    if (begun->interrupted_by != 0) {
        return interrupted(context, options.key, begun->interrupted_by);
    }
    if (begun->answer.outcome != "started") {
        return answer_repeat(context, options.key, begun->answer);
    }
    return run_execution(context, *plan, *begun, database, signals);
}

}  // namespace settle::cli
