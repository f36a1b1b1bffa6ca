// settle demo: the guided story, on real processes. Every claim is checked; the first that does not hold ends it.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>

#include "base/limits.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/demo_stage.hpp"
#include "cli/plain.hpp"
#include "pg/url.hpp"
#include "store/sql_text.hpp"

namespace settle::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto story_wait = 30s;  // for any one thing that the story waits for
constexpr auto look_pause = 10ms;

Deadline soon() {
    return Deadline::in(story_wait);
}

template <class Value>
std::unexpected<Error> error_in(const Result<Value>& failed) {
    return std::unexpected{failed.error()};
}

std::vector<std::string> shell(std::vector<std::string> words, const std::string& script) {
    words.insert(words.end(), {"--", "sh", "-c", script});
    return words;
}

Result<void> claim(bool holds, std::string_view what) {
    if (!holds) {
        return not_as_told(what);
    }
    return {};
}

class Story {
public:
    Story(DemoStage& stage, pg::Connection& connection) : stage_(stage), connection_(connection) {}
    Result<void> tell();

private:
    Result<void> run_once();
    Result<void> other_parameters();
    Result<void> killed();
    Result<void> decided();
    Result<void> frozen();
    Result<void> undo_once();
    Result<void> undo_first();
    Result<void> history();

    Result<void> wait_for(const std::function<Result<bool>()>& there, std::string_view what);
    Result<void> wait_for_line(const std::string& file);
    Result<void> wait_for_lapse(const std::string& key);
    Result<std::string> undo(const std::string& key);
    Result<pg::Rows> ask(pg::Connection& connection, std::string_view statement, const std::vector<std::string>& values,
                         const std::vector<std::string>& columns);

    DemoStage& stage_;
    pg::Connection& connection_;
};

Result<void> Story::tell() {
    for (const auto chapter : {&Story::run_once, &Story::other_parameters, &Story::killed, &Story::decided,
                               &Story::frozen, &Story::undo_once, &Story::undo_first, &Story::history}) {
        if (auto told = (this->*chapter)(); !told) {
            return told;
        }
    }
    return {};
}

Result<void> Story::wait_for(const std::function<Result<bool>()>& there, std::string_view what) {
    for (const auto deadline = soon(); !deadline.passed(); std::this_thread::sleep_for(look_pause)) {
        const auto seen = there();
        if (!seen) {
            return error_in(seen);
        }
        if (*seen) {
            return {};
        }
    }
    return not_as_told(fmt::format("{} did not come to pass in time", what));
}

Result<void> Story::wait_for_line(const std::string& file) {
    return wait_for([&] { return Result<bool>{stage_.text_of(file).ends_with('\n')}; }, "the line in " + file);
}

Result<void> Story::wait_for_lapse(const std::string& key) {
    const auto gone = [&]() -> Result<bool> {
        const auto rows = connection_.query(store::sql::demo_holder_gone, {stage_.name_space(), key}, soon());
        if (!rows) {
            return error_in(rows);
        }
        return rows->count() == 1 && rows->boolean(0, "gone");
    };
    return wait_for(gone, "the end of the lease of " + key);
}

Result<void> Story::run_once() {
    stage_.chapter("1. One effect, one answer",
                   "A payment runs under its key. Whoever asks again gets the first answer, and nothing runs.");
    const auto command = shell({"exec", "--key", "pay:42", "--request", R"({"amount": 100})"},
                               "echo paid 100 >> payments; echo receipt $$");
    const auto first = stage_.settle(command, 0);
    if (!first) {
        return error_in(first);
    }
    const auto again = stage_.settle(command, 0);
    if (!again) {
        return error_in(again);
    }
    const auto payments = stage_.cat("payments");
    if (!payments) {
        return error_in(payments);
    }
    if (auto same = claim(first->out.starts_with("receipt ") && again->out == first->out,
                          "the repeat should print the first receipt");
        !same) {
        return same;
    }
    return claim(*payments == "paid 100\n", "there should be one payment");
}

Result<void> Story::other_parameters() {
    stage_.chapter("2. The same key with another request",
                   "It is a conflict (exit status 103) and changes nothing: a key stands for one request.");
    const auto other = stage_.settle(shell({"exec", "--key", "pay:42", "--request", R"({"amount": 101})"},
                                           "echo paid 101 >> payments; echo receipt $$"),
                                     info(Code::parameter_conflict).exit_status);
    if (!other) {
        return error_in(other);
    }
    return claim(stage_.text_of("payments") == "paid 100\n", "the conflict should pay nothing");
}

Result<void> Story::killed() {
    stage_.chapter(
        "3. kill -9 in the middle",
        "A label is printed, and then the worker dies. Nobody can know what it had done by then: Settle says\n"
        "so (exit status 105), and does not print a second one.");
    const auto command = shell({"exec", "--key", "label:42", "--lease", "2s"}, "echo label >> printer; exec sleep 600");
    auto worker = stage_.start(command);
    if (!worker) {
        return error_in(worker);
    }
    if (auto printed = wait_for_line("printer"); !printed) {
        return printed;
    }
    stage_.signal(*worker, "9");
    if (const auto dead = worker->wait(soon()); !dead) {
        return error_in(dead);
    }
    if (auto lapsed = wait_for_lapse("label:42"); !lapsed) {
        return lapsed;
    }
    stage_.say("  (its lease of 2 s ends)");
    if (const auto unknown = stage_.settle(command, info(Code::outcome_unknown).exit_status); !unknown) {
        return error_in(unknown);
    }
    const auto printed = stage_.cat("printer");
    if (!printed) {
        return error_in(printed);
    }
    return claim(*printed == "label\n", "there should be one label");
}

Result<void> Story::decided() {
    stage_.chapter("4. What cannot be known is decided by a person",
                   "Ann looks at the printer and records what she saw. From then on the key has its answer.");
    const auto done = stage_.settle({"review", "decide", "label:42", "--as", "succeeded", "--operator", "ann",
                                     "--reason", "the label lies in the printer"},
                                    0);
    if (!done) {
        return error_in(done);
    }
    const auto again = stage_.settle(
        shell({"exec", "--key", "label:42", "--lease", "2s"}, "echo label >> printer; exec sleep 600"), 0);
    if (!again) {
        return error_in(again);
    }
    return claim(stage_.text_of("printer") == "label\n", "the decided key should print nothing");
}

Result<void> Story::frozen() {
    stage_.chapter(
        "5. The frozen worker comes back",
        "This work may be repeated, so a second worker takes over once the first one's lease has ended. The\n"
        "first wakes up, is told that its token is stale (exit status 107), and changes nothing.");
    auto first = stage_.start(shell({"exec", "--key", "stock:42", "--repeatable", "--lease", "2s"},
                                    "echo first began >> stock; sleep 600; echo first wrote >> stock"));
    if (!first) {
        return error_in(first);
    }
    if (auto began = wait_for_line("stock"); !began) {
        return began;
    }
    stage_.signal(*first, "STOP");
    if (auto lapsed = wait_for_lapse("stock:42"); !lapsed) {
        return lapsed;
    }
    stage_.say("  (its lease of 2 s ends)");
    const auto second = stage_.settle(
        shell({"exec", "--key", "stock:42", "--repeatable", "--lease", "30s"}, "echo second wrote >> stock"), 0);
    if (!second) {
        return error_in(second);
    }
    stage_.signal(*first, "CONT");
    stage_.say("  $ wait");
    if (const auto woken = stage_.finish(*first, "wait", info(Code::stale_token).exit_status); !woken) {
        return error_in(woken);
    }
    const auto stock = stage_.cat("stock");
    if (!stock) {
        return error_in(stock);
    }
    return claim(*stock == "first began\nsecond wrote\n", "the woken worker should have written nothing");
}

// Begins the undoing and, where it starts, ends it in the same transaction, as a program beside its own tables would.
Result<std::string> Story::undo(const std::string& key) {
    return pg::in_transaction(connection_, soon(), [&](pg::Connection& here) -> Result<std::string> {
        const auto begun = ask(here, store::sql::demo_undo, {key, "ann", "sent back", stage_.name_space()},
                               {"outcome", "token", "status"});
        if (!begun) {
            return error_in(begun);
        }
        if (begun->require(0, "outcome") == "started") {
            const auto ended =
                ask(here, store::sql::demo_undone,
                    {key + "~undo", begun->require(0, "token"), "refund:" + key, stage_.name_space()}, {"outcome"});
            if (!ended) {
                return error_in(ended);
            }
        }
        return begun->require(0, "outcome");
    });
}

// Runs the statement and shows it as it would be typed, with the row it gave.
Result<pg::Rows> Story::ask(pg::Connection& connection, std::string_view statement,
                            const std::vector<std::string>& values, const std::vector<std::string>& columns) {
    auto rows = connection.query(statement, {values.begin(), values.end()}, soon());
    if (rows) {
        std::string typed{statement};
        for (std::size_t number = values.size(); number > 0; --number) {
            const std::string parameter = fmt::format("${}", number);
            typed.replace(typed.find(parameter), parameter.size(), fmt::format("'{}'", values[number - 1]));
        }
        std::string row;
        for (const std::string& column : columns) {
            row += (row.empty() ? "" : " | ") + rows->text(0, column).value_or("");
        }
        stage_.sql(typed, row);
    }
    return rows;
}

Result<void> Story::undo_once() {
    stage_.chapter("6. Undone once",
                   "The payment is undone in the caller's own transaction, here with nothing else in it. Asked again,\n"
                   "Settle replays: there is no second refund.");
    const auto first = undo("pay:42");
    if (!first) {
        return error_in(first);
    }
    const auto second = undo("pay:42");
    if (!second) {
        return error_in(second);
    }
    return claim(*first == "started" && *second == "replayed", "the undo should start once and be replayed then");
}

Result<void> Story::undo_first() {
    stage_.chapter(
        "7. The undo that came first",
        "An undo arrives before its payment. Nothing was applied, and from now on nothing will be: the late\n"
        "payment is answered with UNDONE_FIRST and never runs.");
    const auto early = undo("pay:43");
    if (!early) {
        return error_in(early);
    }
    const auto late = stage_.settle(shell({"exec", "--key", "pay:43", "--request", R"({"amount": 100})"},
                                          "echo paid 100 >> payments; echo receipt $$"),
                                    1);
    if (!late) {
        return error_in(late);
    }
    const auto payments = stage_.cat("payments");
    if (!payments) {
        return error_in(payments);
    }
    if (auto told = claim((late->out + late->err).contains("UNDONE_FIRST"), "the late payment should be told why");
        !told) {
        return told;
    }
    return claim(*early == "not_applied" && *payments == "paid 100\n", "the late payment should never run");
}

Result<void> Story::history() {
    stage_.chapter("8. The whole history", "Who ran what, why, and how it ended, in the order of time.");
    for (const std::string key : {"label:42", "stock:42"}) {
        const auto traced = stage_.settle({"trace", key}, 0);
        if (!traced) {
            return error_in(traced);
        }
        const bool whole = key == "label:42" ? traced->out.contains("ann") && traced->out.contains("the label lies")
                                             : traced->out.contains("#2") && traced->out.contains("lost");
        if (auto told = claim(whole, "the trace of " + key + " should tell what happened"); !told) {
            return told;
        }
    }
    return {};
}

// The address as it may be shown.
std::string without_secrets(std::string url) {
    const auto secrets = pg::secrets_of(url);
    for (const std::string& secret : secrets.value_or(std::vector<std::string>{})) {
        for (std::size_t at = url.find(secret); !secret.empty() && at != std::string::npos;
             at = url.find(secret, at + 3)) {
            url.replace(at, secret.size(), "***");
        }
    }
    return secrets ? printable(url) : "the one named";
}

void introduce(const Context& context, DemoStage& stage, const DemoPlace& place, const std::string& url) {
    stage.say(
        "Settle on real processes: what happens when work is repeated, lost, frozen and undone. Every command\n"
        "below is run for you as it stands, and every claim is checked.\n\n");
    std::error_code unreadable;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", unreadable);
    stage.say("  $ alias settle=" + shell_word(program.string()));
    if (context.db) {
        stage.say("  $ export SETTLE_DB=" + shell_word(without_secrets(url)));
    } else if (const char* home = std::getenv("SETTLE_HOME"); home != nullptr && *home != '\0') {
        stage.say("  $ export SETTLE_HOME=" + shell_word(home));
    }
    stage.say("  $ cd " + place.directory);
}

void conclude(const Context& context, DemoStage& stage, const std::string& url, Clock::duration took) {
    const auto seconds = std::chrono::duration_cast<milliseconds>(took);
    stage.say(fmt::format("\nAll of it happened as told, in {}.{} s. It lies in namespace {} of\n  {}\nLook further:",
                          seconds.count() / 1000, seconds.count() % 1000 / 100, stage.name_space(),
                          without_secrets(url)));
    stage.say(
        fmt::format("  settle --namespace {0} list\n  settle --namespace {0} trace pay:42\n"
                    "  settle --namespace {0} show label:42 --json",
                    stage.name_space()));
    stage.say(context.db ? "  psql \"$SETTLE_DB\" -c 'table settle.executions'"
                         : "  psql \"$(settle db url)\" -c 'table settle.executions'\n"
                           "  settle db down      stops the private database; the next command starts it again");
}

}  // namespace

int demo_command(const Context& context) {
    const auto begun = Clock::now();
    if (context.name_space != "default") {
        return report(context, invalid_argument("namespace", "the demonstration makes one of its own").error());
    }
    auto connection = connect(context);
    if (!connection) {
        return report(context, connection.error());
    }
    const auto url = database_url(context);
    if (!url) {
        return report(context, url.error());
    }
    const auto directory = DemoDirectory::make();
    if (!directory) {
        return report(context, directory.error());
    }
    DemoPlace place{.directory = directory->path(), .variables = {}};
    if (context.db) {
        place.variables.emplace_back("SETTLE_DB", *context.db);
    }
    DemoStage stage{"demo-" + random_id().substr(0, 8), place, context.json};
    introduce(context, stage, place, *url);
    if (const auto told = Story{stage, *connection}.tell(); !told) {
        return report(context, told.error());
    }
    conclude(context, stage, *url, Clock::now() - begun);
    if (context.json) {
        print(stage.document_of_all());
    }
    return 0;
}

}  // namespace settle::cli
