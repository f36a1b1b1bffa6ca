#include "cli/exec_answer.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <boost/json.hpp>

#include "base/text.hpp"
#include "cli/plain.hpp"
#include "cli/wording.hpp"
#include "handler/command_result.hpp"

namespace settle::cli {
namespace {

std::string raw_or_null(const std::optional<std::string>& json) {
    return json.value_or("null");
}

std::string instant_or_null(const std::optional<std::string>& timestamp) {
    return timestamp ? json_string(rfc3339(*timestamp)) : "null";
}

std::string error_or_null(const std::optional<Error>& error) {
    if (!error) {
        return "null";
    }
    return fmt::format(R"({{"code":{},"message":{}}})", json_string(info(error->code).name),
                       json_string(error->message));
}

ExecDocument document_of(const std::string& key, const store::BeginAnswer& answer) {
    return ExecDocument{.outcome = answer.outcome,
                        .key = key,
                        .status = answer.status,
                        .token = answer.token,
                        .execution_id = answer.execution_id,
                        .exit_status = std::nullopt,
                        .result = answer.result,
                        .failure = answer.failure,
                        .holder = answer.holder,
                        .lease_until = answer.lease_until,
                        .next_attempt_at = answer.next_attempt_at,
                        .error = std::nullopt};
}

int verdict(const Context& context, ExecDocument document, Code code, std::string message) {
    document.error = Error{.code = code, .message = std::move(message), .sqlstate = {}, .detail = {}};
    return answer(context, document);
}

std::string failure_code(const std::optional<std::string>& failure) {
    boost::system::error_code wrong;
    const boost::json::value parsed = boost::json::parse(failure.value_or("null"), wrong);
    const boost::json::object* object = wrong ? nullptr : parsed.if_object();
    const boost::json::value* code = object == nullptr ? nullptr : object->if_contains("code");
    return code != nullptr && code->is_string() ? std::string{code->get_string()} : "no code";
}

// Which part of a request differs from the stored one, and what to do: as the database told it.
std::string conflict_line(const std::string& key, const std::optional<std::string>& failure) {
    std::string differs;
    std::string advice = "correct the request or start a new legitimate operation";
    boost::system::error_code wrong;
    const boost::json::value parsed = boost::json::parse(failure.value_or("null"), wrong);
    const boost::json::value* detail = nullptr;
    if (!wrong && parsed.is_object()) {
        detail = parsed.get_object().if_contains("detail");
    }
    if (detail != nullptr && detail->is_object()) {
        const boost::json::object& members = detail->get_object();
        const auto text = [&](std::string_view name) {
            const boost::json::value* member = members.if_contains(name);
            return member != nullptr && member->is_string() ? std::string{member->get_string()} : std::string{};
        };
        if (text("stored_kind") != text("given_kind")) {
            differs = fmt::format("in the kind ({}, not {})", text("stored_kind"), text("given_kind"));
        }
        if (const boost::json::value* pointers = members.if_contains("pointers");
            pointers != nullptr && pointers->is_array()) {
            for (const boost::json::value& pointer : pointers->get_array()) {
                const std::string place = pointer.is_string() ? std::string{pointer.get_string()} : std::string{};
                differs += (differs.empty() ? "" : ", ") + (place.empty() ? "as a whole" : "at " + place);
            }
        }
        if (!text("advice").empty()) {
            advice = text("advice");
        }
    }
    return fmt::format("{} was begun with another request{}{}; {}", key, differs.empty() ? "" : ", which differs ",
                       differs, advice);
}

std::string in_progress_line(const std::string& key, const store::BeginAnswer& answer) {
    if (answer.status == "pending" && answer.next_attempt_at) {
        return fmt::format("{} waits to run again at {}; repeat this then", key, rfc3339(*answer.next_attempt_at));
    }
    if (!answer.holder) {
        return fmt::format("{} is being begun or ended by another right now; repeat this later", key);
    }
    return fmt::format("{} is held by {}{}; repeat this later", key, *answer.holder,
                       answer.lease_until ? fmt::format(" until {}", rfc3339(*answer.lease_until)) : "");
}

void note_on_terminal(std::string_view line) {
    if (isatty(STDERR_FILENO) != 0) {
        warn(line);
    }
}

int replay(const Context& context, ExecDocument document, const store::BeginAnswer& answer_of) {
    const bool failed = answer_of.status == "failed";
    const auto kept = failed ? handler::command_result_of_failure(answer_of.failure.value_or(""))
                             : handler::command_result_of(answer_of.result.value_or(""));
    const std::string& key = document.key;
    if (answer_of.status == "cancelled" || (failed && !kept)) {
        document.exit_status = 1;
        warn(fmt::format("{} was {} with {}; the command was not run, and will not be", key,
                         failed ? "refused" : "cancelled", failure_code(answer_of.failure)));
        return answer(context, document);
    }
    document.exit_status = kept ? kept->exit_status : 0;
    if (kept && !context.json) {
        write_bytes(STDOUT_FILENO, kept->out);
        write_bytes(STDERR_FILENO, kept->err);
    }
    note_on_terminal(kept ? fmt::format("{}: this is the answer of its execution {}; the command was not run again",
                                        key, printable(answer_of.execution_id.value_or("?")))
                          : fmt::format("{} has succeeded, with no output kept; the command was not run", key));
    return answer(context, document);
}

}  // namespace

std::string how_to_settle(const Context& context, const std::string& key) {
    return fmt::format(
        "look what it did, then settle it with `{}`",
        command_line(context, "review decide", key, "--as succeeded|failed|rerun --operator NAME --reason TEXT"));
}

int answer(const Context& context, const ExecDocument& document) {
    if (context.json) {
        print(safe_json(fmt::format(
            R"({{"outcome":{},"key":{},"namespace":{},"status":{},"token":{},"execution_id":{},"exit_status":{},)"
            R"("result":{},"failure":{},"holder":{},"lease_until":{},"next_attempt_at":{},"error":{}}})",
            json_string(document.outcome), json_string(document.key), json_string(context.name_space),
            document.status.empty() ? "null" : json_string(document.status), json_or_null(document.token),
            json_or_null(document.execution_id), json_or_null(document.exit_status), raw_or_null(document.result),
            raw_or_null(document.failure), json_or_null(document.holder), instant_or_null(document.lease_until),
            instant_or_null(document.next_attempt_at), error_or_null(document.error))));
    }
    if (document.error) {
        warn(describe(*document.error));
        return document.exit_status.value_or(info(document.error->code).exit_status);
    }
    return document.exit_status.value_or(info(Code::internal).exit_status);
}

int answer_repeat(const Context& context, const std::string& key, const store::BeginAnswer& answer) {
    const ExecDocument document = document_of(key, answer);
    if (answer.outcome == "replayed") {
        return replay(context, document, answer);
    }
    if (answer.outcome == "conflict") {
        return verdict(context, document, Code::parameter_conflict, conflict_line(key, answer.failure));
    }
    if (answer.outcome == "in_progress") {
        return verdict(context, document, Code::in_progress, in_progress_line(key, answer));
    }
    if (answer.outcome == "frozen") {
        return verdict(context, document, Code::frozen,
                       fmt::format("{} is in review and nothing was run: {}", key, how_to_settle(context, key)));
    }
    if (answer.outcome == "unknown") {
        return verdict(context, document, Code::outcome_unknown,
                       fmt::format("{} has run, and whether it was applied is not known; nothing was run: {}", key,
                                   how_to_settle(context, key)));
    }
    return verdict(context, document, Code::internal,
                   fmt::format("the database answered with the outcome {}, which this program does not know; update it",
                               answer.outcome));
}

}  // namespace settle::cli
