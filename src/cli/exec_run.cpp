#include "cli/exec_run.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

#include "base/text.hpp"
#include "cli/exec_answer.hpp"
#include "cli/plain.hpp"
#include "cli/wording.hpp"
#include "handler/command_result.hpp"
#include "handler/guarded_command.hpp"

namespace settle::cli {
namespace {

using namespace std::chrono_literals;
using handler::CommandEnd;
using handler::StopReason;

constexpr int signal_status = 128;  // as shells report an end by a signal
constexpr std::size_t quoted_output_bytes = 2048;

class ExecRun {
public:
    ExecRun(const Context& context, const ExecPlan& plan, const BegunExecution& begun,
            std::shared_ptr<Reconnecting> database, handler::SignalGate& signals)
        : context_(context),
          plan_(plan),
          holding_(plan.holding),
          opaque_(begun.opaque),
          sent_at_(begun.sent_at),
          begun_(begun.answer),
          database_(std::move(database)),
          signals_(signals) {
        holding_.token = begun.answer.token.value_or(0);
        document_.key = holding_.operation.key;
        document_.token = begun.answer.token;
        document_.execution_id = begun.answer.execution_id;
    }

    int run();

private:
    // What an ended command means for its operation.
    struct Meaning {
        bool lease_lost = false;
        Ending ending;
        int exit_status = 0;  // where the ending is the command's own, or may run again
        std::string what;     // "exit status 3", "killed by SIGKILL"
    };

    bool ready_to_start();
    [[nodiscard]] handler::CommandSpec command_spec() const;
    [[nodiscard]] engine::HeartbeatPlan heartbeat_plan(handler::GuardedCommand& command) const;
    [[nodiscard]] Meaning meaning_of(const CommandEnd& end, bool lease_lost) const;
    [[nodiscard]] Meaning cut_short(const CommandEnd& end, std::string code, std::string what, int exit_status) const;

    int give_up(std::string code, std::string why, int exit_status);
    int lease_was_lost(const std::string& what);
    int not_recorded(const Meaning& meaning, const Error& error);
    int recorded(const Meaning& meaning, const store::EndAnswer& answer);
    int answered_failure(const Meaning& meaning, const std::string& outcome);
    int verdict(Code code, std::string message);

    const Context& context_;
    const ExecPlan& plan_;
    Holding holding_;
    bool opaque_;
    BootClock::time_point sent_at_;
    store::BeginAnswer begun_;
    std::shared_ptr<Reconnecting> database_;
    handler::SignalGate& signals_;
    ExecDocument document_;
};

int ExecRun::run() {
    if (const auto signal = signals_.take(); signal && handler::asks_to_end(*signal)) {
        return give_up("INTERRUPTED", fmt::format("{} came", handler::signal_name(*signal)), signal_status + *signal);
    }
    if (!ready_to_start()) {
        return give_up("LEASE_LAPSED", "the lease had lapsed", info(Code::stale_token).exit_status);
    }
    auto command = handler::GuardedCommand::start(command_spec(), signals_);
    if (!command) {
        return give_up("NOT_STARTED", command.error().message, info(Code::internal).exit_status);
    }
    const engine::Heartbeat heartbeat{heartbeat_plan(**command)};
    const CommandEnd end = (*command)->wait();
    if (end.how == CommandEnd::How::not_started) {
        const bool absent = end.value == ENOENT || end.value == ENOTDIR;
        return give_up("NOT_STARTED", std::generic_category().message(end.value), absent ? 127 : 126);
    }
    const Meaning meaning = meaning_of(end, heartbeat.lost());
    if (meaning.lease_lost) {
        (*command)->flush_output();
        return lease_was_lost(meaning.what);
    }
    Reconnecting database{context_};
    const auto answer = record_ending(database, holding_, meaning.ending, signals_);
    (*command)->flush_output();
    return answer ? recorded(meaning, *answer) : not_recorded(meaning, answer.error());
}

// A beginning may have waited for the key, or for the database to come back: then the lease is renewed first.
bool ExecRun::ready_to_start() {
    const auto now = BootClock::now();
    if (now - sent_at_ < holding_.lease / 3) {
        return true;
    }
    const auto beat = renew_execution(*database_, holding_, Deadline::in(5s));
    if (beat && *beat == engine::Beat::renewed) {
        sent_at_ = now;
    } else if (beat) {
        return false;
    }
    return BootClock::now() < trust_window(sent_at_, holding_.lease).stop_at;
}

handler::CommandSpec ExecRun::command_spec() const {
    const auto now = BootClock::now();
    const auto wall_now = std::chrono::system_clock::now();
    const auto deadline = plan_.max_time ? wall_now + *plan_.max_time
                                         : wall_now + std::chrono::duration_cast<std::chrono::system_clock::duration>(
                                                          sent_at_ + holding_.lease - now);
    handler::CommandSpec spec;
    spec.path = plan_.path;
    spec.arguments = plan_.command;
    spec.variables = {{"SETTLE_KEY", outside_name(context_, holding_.operation.key)},
                      {"SETTLE_ATTEMPT", std::to_string(begun_.attempt)},
                      {"SETTLE_TOKEN", std::to_string(holding_.token)},
                      {"SETTLE_DEADLINE", rfc3339(deadline)}};
    spec.window = trust_window(sent_at_, holding_.lease);
    spec.grace = stop_grace(holding_.lease);
    if (plan_.max_time) {
        spec.time_limit_at = now + *plan_.max_time;
    }
    spec.output_to_stderr = context_.json;
    return spec;
}

engine::HeartbeatPlan ExecRun::heartbeat_plan(handler::GuardedCommand& command) const {
    return engine::HeartbeatPlan{
        .lease = holding_.lease,
        .granted_at = sent_at_,
        .renew = [database = database_,
                  holding = holding_](Deadline deadline) { return renew_execution(*database, holding, deadline); },
        .on_renewed = [&command](const TrustWindow& window) { command.extend(window); },
        .on_lost = [&command] { command.stop(); }};
}

// An end that is no answer: the command may have done its work, or a part of it.
ExecRun::Meaning ExecRun::cut_short(const CommandEnd& end, std::string code, std::string what, int exit_status) const {
    std::string message = what;
    if (!end.err.empty()) {
        const std::size_t from = end.err.size() - std::min(end.err.size(), quoted_output_bytes);
        message += "; its standard error ended with: " + printable(std::string_view{end.err}.substr(from));
    }
    Ending ending{.kind = Ending::Kind::fail, .document = {}, .code = {}, .failure = {}};
    ending.failure = {.error_class = opaque_ ? "unknown" : "transient",
                      .code = std::move(code),
                      .message = std::move(message),
                      .may_have_applied = opaque_};
    return {.lease_lost = false, .ending = std::move(ending), .exit_status = exit_status, .what = std::move(what)};
}

ExecRun::Meaning ExecRun::meaning_of(const CommandEnd& end, bool lease_lost) const {
    const bool killed = end.how == CommandEnd::How::killed;
    if (end.stopped == StopReason::window_ended || end.stopped == StopReason::told ||
        end.stopped == StopReason::parent_gone || (end.how == CommandEnd::How::lost && lease_lost)) {
        return {.lease_lost = true, .ending = {}, .exit_status = 0, .what = "the command was stopped"};
    }
    if (end.stopped == StopReason::time_limit) {
        return cut_short(end, "MAX_TIME",
                         fmt::format("stopped at its time limit of {}", format_duration(*plan_.max_time)),
                         signal_status + (killed ? end.value : SIGTERM));
    }
    if (end.how == CommandEnd::How::lost) {
        return cut_short(end, "GUARD_LOST", "killed with its guard", signal_status + SIGKILL);
    }
    if (killed) {
        const std::string name = handler::signal_name(end.value);
        return cut_short(end, "KILLED_" + name, "killed by " + name, signal_status + end.value);
    }
    // Asked to end from outside, a command that does not say "done" may have stopped anywhere.
    int asked_by = end.forwarded_signal;
    if (asked_by == 0 && end.had_terminal &&
        (end.value == signal_status + SIGINT || end.value == signal_status + SIGQUIT)) {
        asked_by = end.value - signal_status;
    }
    if (end.value != 0 && asked_by != 0) {
        const std::string name = handler::signal_name(asked_by);
        return cut_short(end, "INTERRUPTED", fmt::format("interrupted by {} (exit status {})", name, end.value),
                         signal_status + asked_by);
    }
    Meaning meaning;
    meaning.exit_status = end.value;
    meaning.what = fmt::format("exit status {}", end.value);
    meaning.ending.kind = end.value == 0 ? Ending::Kind::complete : Ending::Kind::refuse;
    meaning.ending.document = handler::to_json({end.value, end.out, end.err});
    meaning.ending.code = fmt::format("EXIT_{}", end.value);
    return meaning;
}

int ExecRun::verdict(Code code, std::string message) {
    document_.error = Error{.code = code, .message = std::move(message), .sqlstate = {}, .detail = {}};
    return answer(context_, document_);
}

// Nothing of the command has run: whoever comes next may begin at once. The heartbeat may still use its own connection.
int ExecRun::give_up(std::string code, std::string why, int exit_status) {
    const std::string& key = holding_.operation.key;
    Ending ending{.kind = Ending::Kind::fail, .document = {}, .code = {}, .failure = {}};
    ending.failure = {.error_class = "cancelled", .code = std::move(code), .message = why, .may_have_applied = false};
    Reconnecting database{context_};
    const auto recorded = record_ending(database, holding_, ending, signals_);
    document_.outcome = "not_started";
    document_.status = recorded && recorded->outcome == "retry" ? "pending" : "";
    document_.exit_status = exit_status;
    std::string next = "nothing was run, and it may be repeated";
    if (!recorded) {
        next = fmt::format("nothing was run, but this could not be written down ({}): {}", recorded.error().message,
                           opaque_ ? how_to_settle(context_, key) : "it may be repeated once the lease has lapsed");
    }
    const std::string line = fmt::format("{}: the command was not started: {}; {}", key, why, next);
    if (exit_status == info(Code::stale_token).exit_status) {
        return verdict(Code::stale_token, line);
    }
    warn(line);
    return answer(context_, document_);
}

int ExecRun::lease_was_lost(const std::string& what) {
    document_.outcome = "lost";
    return verdict(Code::stale_token,
                   fmt::format("{}: the lease was lost; {}, and its end was not recorded: see `{}`",
                               holding_.operation.key, what, command_line(context_, "show", holding_.operation.key)));
}

int ExecRun::not_recorded(const Meaning& meaning, const Error& error) {
    document_.outcome = "not_recorded";
    const std::string line = fmt::format("{}: the command has ended ({}), but this could not be written down ({})",
                                         holding_.operation.key, meaning.what, error.message);
    if (opaque_) {
        return verdict(Code::outcome_unknown, fmt::format("{}; it will not be run again: {}", line,
                                                          how_to_settle(context_, holding_.operation.key)));
    }
    return verdict(Code::database_unreachable,
                   fmt::format("{}; repeat this, and it runs again once its lease has lapsed", line));
}

int ExecRun::recorded(const Meaning& meaning, const store::EndAnswer& answer_of) {
    const Ending& ending = meaning.ending;
    if (answer_of.outcome == "stale") {
        // An ending whose first answer was lost, or a loss that was seen meanwhile: the token tells whose turn it is.
        if (ending.kind != Ending::Kind::fail || answer_of.current_token != holding_.token) {
            return lease_was_lost(fmt::format("the command has ended ({})", meaning.what));
        }
        return answered_failure(meaning, opaque_ ? "unknown" : "retry");
    }
    if (ending.kind == Ending::Kind::fail) {
        document_.next_attempt_at = answer_of.next_attempt_at;
        return answered_failure(meaning, answer_of.outcome);
    }
    document_.outcome = answer_of.outcome;
    document_.exit_status = meaning.exit_status;
    if (ending.kind == Ending::Kind::complete) {
        document_.status = "succeeded";
        document_.result = ending.document;
    } else {
        document_.status = "failed";
        // In the spelling of jsonb, as the document inside.
        document_.failure = fmt::format(R"({{"code": "{}", "detail": {}}})", ending.code, ending.document);
    }
    return answer(context_, document_);
}

int ExecRun::answered_failure(const Meaning& meaning, const std::string& outcome) {
    const std::string& key = holding_.operation.key;
    document_.outcome = outcome;
    document_.status = outcome == "retry" ? "pending" : outcome;
    if (outcome == "unknown") {
        return verdict(Code::outcome_unknown, fmt::format("{}: the command was {}, and what it did is not known: {}",
                                                          key, meaning.what, how_to_settle(context_, key)));
    }
    document_.exit_status = meaning.exit_status;
    std::string next = "it was cancelled meanwhile, and will not run again";
    if (outcome == "retry") {
        next = "a repeat may run it again";
        if (document_.next_attempt_at) {
            next += " from " + rfc3339(*document_.next_attempt_at);
        }
    } else if (outcome == "review") {
        next = "it has been tried often enough and is now in review: " + how_to_settle(context_, key);
    }
    warn(fmt::format("{}: the command was {}; {}", key, meaning.what, next));
    return answer(context_, document_);
}

}  // namespace

int run_execution(const Context& context, const ExecPlan& plan, const BegunExecution& begun,
                  std::shared_ptr<Reconnecting> database, handler::SignalGate& signals) {
    return ExecRun{context, plan, begun, std::move(database), signals}.run();
}

}  // namespace settle::cli
