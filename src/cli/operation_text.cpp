#include "cli/operation_text.hpp"

#include <fmt/format.h>

#include <vector>

#include "base/text.hpp"
#include "cli/plain.hpp"

namespace settle::cli {
namespace {

constexpr std::size_t excerpt_bytes = 2000;
constexpr std::size_t line_bytes = 300;
constexpr std::string_view signature = "--operator YOU --reason WHY";

using Table = std::vector<std::vector<std::string>>;

std::string or_dash(const std::optional<std::string>& text) {
    return text ? printable(*text) : "-";
}

std::string error_line(const store::ErrorText& error) {
    std::string line = printable(error.code.empty() ? error.error_class : error.code);
    if (!error.message.empty()) {
        line += ": " + excerpt(error.message, line_bytes);
    }
    return line;
}

std::string when(const std::optional<std::string>& instant, const std::optional<std::int64_t>& seconds) {
    if (!instant) {
        return "no time set";
    }
    return seconds ? fmt::format("{} ({})", *instant, about(*seconds)) : *instant;
}

// In review: why it is there.
std::string review_meaning(const store::Shown& shown) {
    const std::string reason = shown.review ? shown.review->reason : "";
    if (reason == "unknown") {
        return "its effect may have been applied or not, and nothing but a person can tell";
    }
    if (reason == "exhausted") {
        return "its attempts are spent; it was not applied as far as is known";
    }
    if (reason == "configuration") {
        return "it cannot work as things are set up; repeating alone does not help";
    }
    if (reason == "defect") {
        return "its execution ended in a way that was not foreseen";
    }
    return "a person has to decide: " + printable(reason);
}

std::string pending_meaning(const store::Shown& shown) {
    const bool due = shown.due_in_s.value_or(1) <= 0;
    return fmt::format("it waits for {}, due {} {}",
                       shown.attempt_count == 0 ? "its first execution" : "its next attempt", due ? "since" : "at",
                       when(shown.next_attempt_at, shown.due_in_s));
}

std::string running_meaning(const store::Shown& shown) {
    const bool lapsed = shown.lease_left_s.value_or(1) <= 0;
    std::string text =
        fmt::format("{} holds it under token {}, {} {}", or_dash(shown.lease_owner), shown.token.value_or(0),
                    lapsed ? "but that lease lapsed at" : "until", when(shown.lease_until, shown.lease_left_s));
    if (shown.sent_at) {
        text += fmt::format("; its effect left the process at {}", *shown.sent_at);
    }
    if (shown.cancel_requested) {
        text += "; a cancel was asked for, which its holder sees at the next renewal";
    }
    return text;
}

std::string cancelled_meaning(const store::Shown& shown) {
    if (shown.failure_code == "UNDONE_FIRST") {
        return fmt::format("it was undone before it came (by {}: {}), and never runs", or_dash(shown.operator_name),
                           excerpt(shown.reason.value_or(""), line_bytes));
    }
    return "it never runs, or not again";
}

std::string meaning(const store::Shown& shown) {
    if (shown.status == "pending") {
        return pending_meaning(shown);
    }
    if (shown.status == "running") {
        return running_meaning(shown);
    }
    if (shown.status == "succeeded") {
        return shown.compensated_by
                   ? fmt::format("it was done at {}, and its compensation {} is {}", shown.finished_at.value_or("-"),
                                 printable(*shown.compensated_by), shown.compensation_status.value_or("-"))
                   : fmt::format("it was done at {}; every repeat gets this answer", shown.finished_at.value_or("-"));
    }
    if (shown.status == "failed") {
        return fmt::format("the business said no: {}", or_dash(shown.failure_code));
    }
    if (shown.status == "cancelled") {
        return cancelled_meaning(shown);
    }
    if (shown.status == "unknown") {
        return shown.has_resolver ? "its effect may have been applied or not; it is being looked up"
                                  : "its effect may have been applied or not";
    }
    return review_meaning(shown);
}

// The decisions a person can take, with what each means.
std::string decision_lines(const Context& context, const std::string& key, const store::Shown& shown) {
    const auto line = [&](std::string_view decision, std::string_view more) {
        return command_line(context, "review decide", key, fmt::format("--as {} {}{}", decision, signature, more));
    };
    Table rows{{"it was applied:", line("succeeded", " --result-ref REF")},
               {"it was not; run it again:", line("rerun", "")},
               {"it was not, and shall not be:", line("cancelled", "")},
               {"the answer is no:", line("failed", "")}};
    if (shown.compensation_kind) {
        rows.push_back({"it was applied; undo it:", line("compensate", "")});
    }
    std::string text = shown.remote_ref ? fmt::format("look on the other side for {}, then record what you found:\n",
                                                      printable(*shown.remote_ref))
                                        : std::string{"find out whether it was applied, then record what you found:\n"};
    text += table(rows, 2);
    if (shown.approvals_needed.value_or(1) > 1) {
        text += fmt::format("  two people have to decide the same; approvals so far: {}\n",
                            shown.review ? shown.review->approvals : 0);
    }
    return text;
}

std::string running_steps(const Context& context, const std::string& key, const store::Shown& shown) {
    if (shown.lease_left_s.value_or(1) > 0) {
        return "wait: a repeat is answered OPERATION_IN_PROGRESS until then\n";
    }
    if (!shown.sent_at) {
        return fmt::format("{}; whoever comes next takes it over\n", begun_again(key, shown.kind));
    }
    return fmt::format("its outcome is unknown; {} brings it to review\n",
                       context.name_space == "default"
                           ? "settle review list"
                           : "settle --namespace " + shell_word(context.name_space) + " review list");
}

std::string failed_steps(const Context& context, const std::string& key, const store::Shown& shown) {
    constexpr std::string_view corrected =
        "nothing to do: a repeat gets the same answer; a corrected request is a new operation under a key of its own\n";
    if (shown.rerun_failed.value_or(false)) {
        return fmt::format("{}or, once the reason is gone, run it again: {}\n", corrected,
                           command_line(context, "rerun", key, signature));
    }
    if (!shown.declared && shown.kind == "exec") {
        return fmt::format("{}or, once the reason is gone: settle exec --key {} --rerun {} -- …\n", corrected,
                           shell_word(key), signature);
    }
    return std::string{corrected};
}

Table fields(const store::Shown& shown) {
    Table rows;
    const auto add = [&](std::string_view name, const std::optional<std::string>& value) {
        if (value) {
            rows.push_back({std::string{name}, excerpt(*value, excerpt_bytes)});
        }
    };
    add("kind", shown.kind);
    add("effect", shown.effect);
    add("created", shown.created_at);
    add("finished", shown.finished_at);
    rows.push_back({"attempts", std::to_string(shown.attempt_count)});
    add("request", shown.request);
    add("digest", shown.digest);
    add("result ref", shown.result_ref);
    add("result", shown.result);
    add("failure", shown.failure_code);
    add("detail", shown.failure_detail);
    if (shown.last_error && shown.last_error->error_class != "refused") {
        rows.push_back({"last error", error_line(*shown.last_error)});
    }
    add("remote ref", shown.remote_ref);
    add("compensates", shown.compensates);
    if (shown.compensates) {
        add("asked by", shown.operator_name);
        add("because", shown.reason);
    }
    if (shown.compensated_by) {
        add("undone by", fmt::format("{} ({})", *shown.compensated_by, shown.compensation_status.value_or("-")));
    }
    if (shown.review) {
        add("in review", fmt::format("since {}, reason {}, approvals {}", shown.review->since, shown.review->reason,
                                     shown.review->approvals));
    }
    return rows;
}

std::vector<std::string> execution_cells(const store::ExecutionLine& run) {
    std::string more;
    const auto add = [&](const std::string& text) { more += (more.empty() ? "" : "; ") + text; };
    if (run.error) {
        add(error_line(*run.error));
    }
    if (run.sent_at) {
        add(fmt::format("sent at {}{}", *run.sent_at,
                        run.remote_ref ? " as " + excerpt(*run.remote_ref, line_bytes) : std::string{}));
    }
    if (run.repeats > 0) {
        add(fmt::format("repeated {} times in place", run.repeats));
    }
    if (run.operator_name) {
        add(fmt::format("for {}: {}", printable(*run.operator_name), excerpt(run.reason.value_or(""), line_bytes)));
    }
    return {fmt::format("#{}", run.token),
            run.trigger,
            or_dash(run.worker),
            run.started_at.value_or("-"),
            run.finished_at.value_or("-"),
            run.outcome.value_or(run.finished_at ? "-" : "running"),
            more};
}

}  // namespace

std::string begun_again(std::string_view key, const std::optional<std::string>& kind) {
    return kind == "exec" ? fmt::format("begin it again: settle exec --key {} -- COMMAND", shell_word(key))
                          : std::string{"begin it again as it was begun"};
}

std::string next_steps(const Context& context, const std::string& key, const store::Shown& shown) {
    if (shown.status == "pending") {
        return shown.compensates ? fmt::format("begin it with settle.begin_compensation for the key {}\n",
                                               printable(*shown.compensates))
                                 : begun_again(key, shown.kind) + "\n";
    }
    if (shown.status == "running") {
        return running_steps(context, key, shown);
    }
    if (shown.status == "failed") {
        return failed_steps(context, key, shown);
    }
    if (shown.status == "unknown" || shown.status == "review") {
        return decision_lines(context, key, shown);
    }
    return "nothing to do: a repeat gets the same answer\n";
}

std::string operation_text(const Context& context, const std::string& key, const store::Shown& shown) {
    std::string text = fmt::format("{} is {}: {}\n", printable(key), in_words(shown.status), meaning(shown));
    text += fmt::format("next: {}\n", next_steps(context, key, shown));
    text += table(fields(shown));
    if (!shown.executions.empty()) {
        const auto shown_count = static_cast<std::int64_t>(shown.executions.size());
        text += shown.execution_count > shown_count ? fmt::format("\nexecutions (the last {} of {}; --json has all):\n",
                                                                  shown_count, shown.execution_count)
                                                    : std::string{"\nexecutions:\n"};
        Table rows{{"", "trigger", "worker", "started", "finished", "outcome"}};
        for (const auto& run : shown.executions) {
            rows.push_back(execution_cells(run));
        }
        text += table(rows, 2);
    }
    if (!shown.decisions.empty()) {
        text += "\ndecisions:\n";
        Table rows;
        for (const auto& decision : shown.decisions) {
            rows.push_back({decision.decided_at, printable(decision.act),
                            fmt::format("by {}", printable(decision.operator_name)),
                            fmt::format("{} -> {}", decision.from_status, decision.to_status),
                            excerpt(decision.reason, line_bytes)});
        }
        text += table(rows, 2);
    }
    return text;
}

}  // namespace settle::cli
