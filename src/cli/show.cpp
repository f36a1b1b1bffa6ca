// settle show KEY, settle trace KEY: one operation as it is now, and its whole story.
#include <fmt/format.h>

#include "base/limits.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/operation_text.hpp"
#include "cli/plain.hpp"
#include "store/inspect.hpp"

namespace settle::cli {
namespace {

constexpr std::size_t line_bytes = 300;

std::string by(const std::optional<std::string>& name) {
    return name ? " by " + printable(*name) : std::string{};
}

// "; for ANN: the reason she gave", where a person is behind it.
std::string for_whom(const store::TraceEvent& event) {
    if (!event.operator_name) {
        return {};
    }
    return fmt::format("; for {}: {}", printable(*event.operator_name), excerpt(event.reason.value_or(""), line_bytes));
}

std::string why(const store::TraceEvent& event) {
    if (event.failure_code) {
        return ": " + printable(*event.failure_code);
    }
    if (event.error_code) {
        const std::string message = event.error_message.value_or("");
        return fmt::format(": {}{}{}", printable(*event.error_code), message.empty() ? "" : ": ",
                           excerpt(message, line_bytes));
    }
    return event.result_ref ? ": " + excerpt(*event.result_ref, line_bytes) : std::string{};
}

std::string told(const store::TraceEvent& event) {
    if (event.event == "created") {
        return event.compensates
                   ? fmt::format("created: the compensation of {}{}", printable(*event.compensates), for_whom(event))
                   : fmt::format("created: kind {}", printable(event.kind.value_or("-")));
    }
    if (event.event == "undone_first") {
        return "cancelled before it came: its compensation was first" + for_whom(event);
    }
    const std::string execution = fmt::format("#{}", event.token.value_or(0));
    if (event.event == "started") {
        const bool takeover = event.trigger == "takeover";
        return fmt::format("{} started: {}{}, token {}{}", execution,
                           takeover ? "lease taken over" : "trigger " + event.trigger.value_or("-"), by(event.worker),
                           event.token.value_or(0), for_whom(event));
    }
    if (event.event == "sent") {
        return fmt::format(
            "{} marked as sent{}{}", execution, by(event.worker),
            event.remote_ref ? ", remote reference " + excerpt(*event.remote_ref, line_bytes) : std::string{});
    }
    if (event.event == "ended") {
        return fmt::format("{} ended {}{}{}", execution, event.outcome.value_or("-"), by(event.worker), why(event));
    }
    if (event.event == "repeated") {
        return fmt::format("{} repeated: {}, trigger {}{}{}", execution, event.outcome.value_or("-"),
                           event.trigger.value_or("-"), by(event.worker), for_whom(event));
    }
    return fmt::format("{} decided {}: {} -> {}: {}", printable(event.operator_name.value_or("-")),
                       printable(event.act.value_or("-")), event.from_status.value_or("-"),
                       event.to_status.value_or("-"), excerpt(event.reason.value_or(""), line_bytes));
}

std::string trace_text(const std::string& key, const store::Trace& trace) {
    std::string text;
    for (const auto& event : trace.events) {
        // An event of the compensation names it; the key asked for goes without saying.
        text += fmt::format("{}  {}{}\n", event.at.empty() ? "-" : event.at,
                            event.key == key ? std::string{} : printable(event.key) + " ", told(event));
    }
    return fmt::format("{} is {}, kind {}\n{}", printable(key), in_words(trace.status),
                       printable(trace.kind.value_or("-")), text);
}

std::string trace_document(const Context& context, const std::string& key, const store::Trace& trace) {
    std::vector<std::string> events;
    events.reserve(trace.events.size());
    for (const auto& event : trace.events) {
        events.push_back(event.document);
    }
    return fmt::format(R"({{"namespace":{},"key":{},"status":{},"events":{}}})", json_string(context.name_space),
                       json_string(key), json_string(trace.status), json_array(events));
}

}  // namespace

int show_command(const Context& context, const ShowOptions& options) {
    auto connection = connect(context);
    if (!connection) {
        return report(context, connection.error());
    }
    auto shown = store::show(*connection, {.name_space = context.name_space, .key = options.key},
                             Deadline::in(limits::statement_wait));
    if (!shown) {
        return report(context, shown.error());
    }
    print(context.json ? safe_json(shown->document) : operation_text(context, options.key, *shown));
    return 0;
}

int trace_command(const Context& context, const ShowOptions& options) {
    auto connection = connect(context);
    if (!connection) {
        return report(context, connection.error());
    }
    auto trace = store::trace(*connection, {.name_space = context.name_space, .key = options.key},
                              Deadline::in(limits::statement_wait));
    if (!trace) {
        return report(context, trace.error());
    }
    print(context.json ? safe_json(trace_document(context, options.key, *trace)) : trace_text(options.key, *trace));
    return 0;
}

}  // namespace settle::cli
