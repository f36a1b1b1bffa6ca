// settle rerun KEY; settle review list | show | decide: what only a person can settle.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/limits.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/operation_text.hpp"
#include "cli/plain.hpp"
#include "domain/json_text.hpp"
#include "store/inspect.hpp"
#include "store/review.hpp"

namespace settle::cli {
namespace {

constexpr std::array<std::string_view, 5> decisions{"rerun", "succeeded", "failed", "cancelled", "compensate"};
constexpr std::string_view read_only_transaction = "25006";
constexpr std::size_t note_bytes = 80;
constexpr int answer_is_no = 1;

// What is recorded for ever has to say who and why. The database checks the same.
Result<void> check_signature(const std::string& operator_name, const std::string& reason) {
    if (operator_name.empty()) {
        return invalid_argument("operator", "it is empty; say who decides");
    }
    if (reason.find_first_not_of(' ') == std::string::npos) {
        return invalid_argument("reason", "it is empty; say why, for the record");
    }
    if (reason.size() > limits::kept_text_bytes) {
        return invalid_argument(
            "reason", fmt::format("it is {} bytes long; the limit is {}", reason.size(), limits::kept_text_bytes));
    }
    return {};
}

Result<void> check_revised(const std::optional<std::string>& request) {
    return request ? check_json_text("revise", *request) : Result<void>{};
}

std::string document(const Context& context, const std::string& key, const store::ActAnswer& answer) {
    return fmt::format(R"({{"namespace":{},"key":{},"outcome":{},"status":{},"reason":{}}})",
                       json_string(context.name_space), json_string(key), json_string(answer.outcome),
                       json_string(answer.status), answer.why ? json_string(*answer.why) : "null");
}

int done(const Context& context, const std::string& key, const store::ActAnswer& answer, const std::string& line) {
    print(context.json ? document(context, key, answer) : line);
    return 0;
}

// A no that has no code of its own: the operation stands where it stood.
int refused(const Context& context, const std::string& key, const store::ActAnswer& answer) {
    if (context.json) {
        print(document(context, key, answer));
    }
    const std::string line =
        fmt::format("settle: refused: {}: {}\n", printable(key), printable(answer.why.value_or("no reason given")));
    static_cast<void>(!write(STDERR_FILENO, line.data(), line.size()));
    return answer_is_no;
}

int coded(const Context& context, Code code, const std::string& key, const store::ActAnswer& answer) {
    return report(context, fail(code, fmt::format("{}: {}", key, answer.why.value_or(answer.status))).error());
}

std::string begin_again(const std::string& key) {
    return fmt::format("{} is pending, due now: begin it again as it was begun, and it runs under its key",
                       printable(key));
}

int list_reviews(const Context& context, pg::Connection& connection) {
    const auto swept = store::sweep(connection, context.name_space, Deadline::in(limits::statement_wait));
    // A reader, or a standby: the list is then what others have swept.
    if (!swept && swept.error().code != Code::permission_denied && swept.error().sqlstate != read_only_transaction) {
        return report(context, swept.error());
    }
    auto found = store::reviews(connection, context.name_space, Deadline::in(limits::statement_wait));
    if (!found) {
        return report(context, found.error());
    }
    if (context.json) {
        std::vector<std::string> documents;
        documents.reserve(found->size());
        for (auto& line : *found) {
            documents.push_back(std::move(line.document));
        }
        print(safe_json(json_array(documents)));
        return 0;
    }
    if (found->empty()) {
        print("nothing is in review");
        return 0;
    }
    std::vector<std::vector<std::string>> rows{{"SINCE", "STATUS", "KEY", "KIND", "REASON", "APPROVALS", "LAST ERROR"}};
    for (const auto& line : *found) {
        rows.push_back(
            {line.since, line.status, printable(line.key), printable(line.kind.value_or("-")), printable(line.reason),
             std::to_string(line.approvals),
             line.error_code
                 ? excerpt(fmt::format("{}: {}", *line.error_code, line.error_message.value_or("")), note_bytes)
                 : "-"});
    }
    print(table(rows) + "next: " + command_line(context, "review show", found->front().key));
    return 0;
}

// The operation's document with two members more: its place in review, and every decision.
std::string case_document(const store::Shown& shown) {
    std::vector<std::string> documents;
    documents.reserve(shown.decisions.size());
    for (const auto& decision : shown.decisions) {
        documents.push_back(decision.document);
    }
    const std::string_view open = std::string_view{shown.document}.substr(0, shown.document.rfind('}'));
    return fmt::format(R"({}, "review" : {}, "decisions" : {}}})", open, shown.review ? shown.review->document : "null",
                       json_array(documents));
}

int show_review(const Context& context, pg::Connection& connection, const std::string& key) {
    auto shown =
        store::show(connection, {.name_space = context.name_space, .key = key}, Deadline::in(limits::statement_wait));
    if (!shown) {
        return report(context, shown.error());
    }
    print(context.json ? safe_json(case_document(*shown))
                       : (shown->review ? "" : "not in review\n") + operation_text(context, key, *shown));
    return 0;
}

Result<void> check_decision(const ReviewOptions& options) {
    if (std::ranges::find(decisions, options.decision) == decisions.end()) {
        return invalid_argument("as",
                                fmt::format("\"{}\" is none of {}", options.decision, fmt::join(decisions, ", ")));
    }
    if (options.request && options.decision != "rerun") {
        return invalid_argument("revise", "a request is revised only with --as rerun");
    }
    if (auto signature = check_signature(options.operator_name, options.reason); !signature) {
        return signature;
    }
    return check_revised(options.request);
}

int decided(const Context& context, const ReviewOptions& options, const store::ActAnswer& answer) {
    if (answer.outcome == "already_decided") {
        return coded(context, Code::already_decided, options.key, answer);
    }
    if (answer.outcome == "refused") {
        return refused(context, options.key, answer);
    }
    if (answer.outcome == "approved") {
        return done(context, options.key, answer,
                    fmt::format("approved by {}: {} is still {}; a second person has to decide the same",
                                printable(options.operator_name), printable(options.key), in_words(answer.status)));
    }
    if (options.decision == "rerun") {
        return done(context, options.key, answer, begin_again(options.key));
    }
    const std::string undo =
        options.decision == "compensate"
            ? fmt::format(", and its compensation is to be done as {}", printable(options.key + "~undo"))
            : std::string{};
    return done(context, options.key, answer,
                fmt::format("{} is {}, decided by {}{}", printable(options.key), answer.status,
                            printable(options.operator_name), undo));
}

int decide_review(const Context& context, const ReviewOptions& options) {
    if (auto valid = check_decision(options); !valid) {
        return report(context, valid.error());
    }
    auto connection = connect(context);
    if (!connection) {
        return report(context, connection.error());
    }
    const store::Act act{.operation = {.name_space = context.name_space, .key = options.key},
                         .operator_name = options.operator_name,
                         .reason = options.reason,
                         .request = options.request};
    auto answer =
        store::decide(*connection, act, options.decision, options.result_ref, Deadline::in(limits::statement_wait));
    return answer ? decided(context, options, *answer) : report(context, answer.error());
}

}  // namespace

int rerun_command(const Context& context, const OperatorOptions& options) {
    if (auto signature = check_signature(options.operator_name, options.reason); !signature) {
        return report(context, signature.error());
    }
    if (auto revised = check_revised(options.request); !revised) {
        return report(context, revised.error());
    }
    auto connection = connect(context);
    if (!connection) {
        return report(context, connection.error());
    }
    const store::Act act{.operation = {.name_space = context.name_space, .key = options.key},
                         .operator_name = options.operator_name,
                         .reason = options.reason,
                         .request = options.request};
    auto answer = store::rerun(*connection, act, Deadline::in(limits::statement_wait));
    if (!answer) {
        return report(context, answer.error());
    }
    if (answer->outcome == "done") {
        return done(context, options.key, *answer, begin_again(options.key));
    }
    if (answer->status == "succeeded") {
        return done(context, options.key, *answer,
                    fmt::format("{}: {}", printable(options.key), answer->why.value_or("")));
    }
    if (answer->status == "running" || answer->status == "pending") {
        return coded(context, Code::in_progress, options.key, *answer);
    }
    if (answer->status == "unknown") {
        return coded(context, Code::outcome_unknown, options.key, *answer);
    }
    return refused(context, options.key, *answer);
}

int review_command(const Context& context, const ReviewOptions& options) {
    if (options.action == "decide") {
        return decide_review(context, options);
    }
    if (options.action != "list" && options.action != "show") {
        return report(context, invalid_argument("review", "the action is list, show or decide").error());
    }
    auto connection = connect(context);
    if (!connection) {
        return report(context, connection.error());
    }
    return options.action == "list" ? list_reviews(context, *connection)
                                    : show_review(context, *connection, options.key);
}

}  // namespace settle::cli
