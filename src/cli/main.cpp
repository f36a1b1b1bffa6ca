// The program: arguments in, an exit status out. The argument parser is known here alone.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "cli/arguments.hpp"
#include "cli/commands.hpp"
#include "cli/help.hpp"

namespace settle::cli {
namespace {

using Run = std::function<int(const Context&)>;

// Says what follows `--`, which the parser never sees.
class HelpText : public CLI::Formatter {
public:
    HelpText() {
        column_width(34);
        label("SUBCOMMAND", "COMMAND");
    }
    std::string make_usage(const CLI::App* app, std::string name) const override {
        std::string text = CLI::Formatter::make_usage(app, std::move(name));
        if (takes_command.contains(app)) {
            text.insert(text.find_last_not_of('\n') + 1, " -- PROGRAM [ARGUMENT…]");
        }
        return text;
    }
    std::map<const CLI::App*, Arguments*> takes_command;
};

class Program {
public:
    Program();
    int run(Arguments arguments);

private:
    CLI::App* group(const std::string& name, const std::string& what, std::string_view more);
    CLI::App* command(CLI::App* parent, const std::string& name, const std::string& what, std::string_view more,
                      Run run);
    // A command whose options live as long as the program.
    template <class Options>
    CLI::App* command(CLI::App* parent, const std::string& name, const std::string& what, std::string_view more,
                      int (*act)(const Context&, const Options&), const std::shared_ptr<Options>& options) {
        return command(parent, name, what, more,
                       [act, options](const Context& context) { return act(context, *options); });
    }
    void add_exec();
    void add_reading();
    void add_rerun();
    void add_review();
    void add_lease();
    void add_lab();
    void add_db();
    void add_migrate();
    void add_demo();

    int parse_and_run(Arguments arguments);
    int usage_error(const std::string& message);
    [[nodiscard]] std::string explain(const CLI::ParseError& error) const;
    [[nodiscard]] const CLI::App* chosen() const;
    [[nodiscard]] std::string chosen_name() const;

    CLI::App app_{"Makes repeated execution converge to one result."};
    std::shared_ptr<HelpText> help_ = std::make_shared<HelpText>();
    std::map<const CLI::App*, Run> runs_;
    Context context_;
    std::string db_;
};

// The texts of `help` begin on a line of their own.
std::string below_options(std::string_view more) {
    return std::string{more.substr(more.find_first_not_of('\n'))};
}

Program::Program() {
    app_.name("settle");
    app_.formatter(help_);
    app_.set_help_flag("-h,--help", "Print this help and exit");
    app_.set_version_flag("--version", "settle " SETTLE_VERSION, "Print the version and exit");
    app_.require_subcommand(0, 1);
    app_.footer(below_options(help::overview));
    app_.add_option("--db", db_, "The database: postgresql://USER@HOST/NAME (default: SETTLE_DB)")->type_name("URL");
    app_.add_option("--namespace", context_.name_space, "Whose keys and resources (default: default)")
        ->type_name("NAME");
    app_.add_flag("--json", context_.json, "One JSON document on standard output, errors too");
    add_exec();
    add_reading();
    add_review();
    add_rerun();
    add_lease();
    add_lab();
    add_demo();
    add_db();
    add_migrate();
    command(&app_, "doctor", "Check every setting and every invariant", help::doctor, doctor_command);
}

CLI::App* Program::group(const std::string& name, const std::string& what, std::string_view more) {
    CLI::App* group = app_.add_subcommand(name, what);
    group->group("Commands");
    group->fallthrough();
    group->require_subcommand(1);
    group->footer(below_options(more));
    return group;
}

CLI::App* Program::command(CLI::App* parent, const std::string& name, const std::string& what, std::string_view more,
                           Run run) {
    CLI::App* added = parent->add_subcommand(name, what);
    added->group("Commands");
    added->fallthrough();
    added->footer(fmt::format("{}\n{}", below_options(more), help::global_options));
    runs_.emplace(added, std::move(run));
    return added;
}

CLI::Option* add_key(CLI::App* command, std::string& key) {
    return command->add_option("KEY", key, "The operation's key")->required();
}

// Every act of a person is recorded with who and why.
void add_operator(CLI::App* command, std::string& name, std::string& reason) {
    command->add_option("--operator", name, "Who decides")->type_name("NAME")->required();
    command->add_option("--reason", reason, "Why, for the record")->type_name("TEXT")->required();
}

void Program::add_exec() {
    const auto options = std::make_shared<ExecOptions>();
    CLI::App* exec = command(&app_, "exec", "Run a command once under a key, and replay its end on a repeat",
                             help::exec, exec_command, options);
    help_->takes_command.emplace(exec, &options->command);
    exec->add_option("--key", options->key, "Names the business operation")->type_name("KEY")->required();
    exec->add_option("--kind", options->kind, "What sort of operation it is (default: exec)")->type_name("NAME");
    exec->add_option("--request", options->request, "What a repeat must agree with (default: {})")->type_name("JSON");
    exec->add_option("--lease", options->lease, "How long a vanished holder is waited for (default: 30s)")
        ->type_name("TIME");
    exec->add_option("--max-time", options->max_time, "Stop the command after this time")->type_name("TIME");
    exec->add_flag("--repeatable", options->repeatable, "After a crash another may run the command again");
    exec->add_option("--trigger", options->trigger, "call, schedule, retry, manual or event (default: call)")
        ->type_name("NAME");
    CLI::Option* rerun =
        exec->add_flag("--rerun", options->rerun, "Run a failed or reviewed one again; never a success");
    CLI::Option* who = exec->add_option("--operator", options->operator_name, "Who decides so")->type_name("NAME");
    CLI::Option* why = exec->add_option("--reason", options->reason, "Why, for the record")->type_name("TEXT");
    rerun->needs(who, why);
    who->needs(rerun);
    why->needs(rerun);
}

void Program::add_db() {
    CLI::App* db = group("db", "The private PostgreSQL: start, stop, look, connect", help::db);
    const auto add = [&](const std::string& action, const std::string& what, std::string_view more) {
        command(db, action, what, more, db_command, std::make_shared<DbOptions>(DbOptions{.action = action}));
    };
    add("up", "Start it where it does not run, and make it where there is none", help::db_up);
    add("down", "Stop it; who is connected is disconnected, and nothing is lost", help::db_down);
    add("status", "Say whether it runs, and where its files are", help::db_status);
    add("url", "Print its URL for psql and other programs, started and migrated", help::db_url);
}

void Program::add_migrate() {
    const auto options = std::make_shared<MigrateOptions>();
    CLI::App* migrate = command(&app_, "migrate", "Install Settle's schema in the database, or upgrade it",
                                help::migrate, migrate_command, options);
    migrate->add_flag("--print", options->print, "Print the SQL, and change nothing");
}

void Program::add_reading() {
    const auto shown = std::make_shared<ShowOptions>();
    add_key(
        command(&app_, "show", "Show an operation: what it is, and what to do next", help::show, show_command, shown),
        shown->key);
    const auto traced = std::make_shared<ShowOptions>();
    add_key(command(&app_, "trace", "Tell an operation's whole story, in the order of time", help::trace, trace_command,
                    traced),
            traced->key);
    const auto listed = std::make_shared<ListOptions>();
    CLI::App* list = command(&app_, "list", "List operations, newest first", help::list, list_command, listed);
    list->add_option("--status", listed->status, "Only those in this status")->type_name("STATUS");
    list->add_option("--kind", listed->kind, "Only those of this kind")->type_name("KIND");
    list->add_option("--limit", listed->limit, "At most so many, 1 to 1000 (default: 100)")->type_name("N");
}

void Program::add_rerun() {
    const auto options = std::make_shared<OperatorOptions>();
    CLI::App* rerun =
        command(&app_, "rerun", "Have an operation run again under its key", help::rerun, rerun_command, options);
    add_key(rerun, options->key);
    add_operator(rerun, options->operator_name, options->reason);
    rerun->add_option("--revise", options->request, "The whole corrected request; its identity stays")
        ->type_name("JSON");
}

void Program::add_review() {
    CLI::App* review = group("review", "What needs a person: list, look, decide", help::review);
    const auto add = [&](const std::string& action, const std::string& what, std::string_view more) {
        const auto options = std::make_shared<ReviewOptions>();
        options->action = action;
        return std::pair{command(review, action, what, more, review_command, options), options};
    };
    add("list", "List what is in review, the longest waiting first", help::review_list);
    const auto [show, shown] = add("show", "Show a case with everything kept about it", help::review_show);
    add_key(show, shown->key);
    const auto [decide, decided] = add("decide", "Settle a case, for the record", help::review_decide);
    add_key(decide, decided->key);
    decide->add_option("--as", decided->decision, "succeeded, failed, cancelled, rerun or compensate")
        ->type_name("DECISION")
        ->required();
    add_operator(decide, decided->operator_name, decided->reason);
    decide->add_option("--result-ref", decided->result_ref, "What was produced, for those who ask later")
        ->type_name("REF");
    decide->add_option("--revise", decided->request, "With --as rerun: the whole corrected request")->type_name("JSON");
}

void Program::add_lease() {
    CLI::App* lease = group("lease", "Leases: one holder of a resource at a time", help::lease);
    const auto add = [&](const std::string& action, const std::string& what, std::string_view more) {
        const auto options = std::make_shared<LeaseOptions>();
        options->action = action;
        CLI::App* added = command(lease, action, what, more, lease_command, options);
        added->add_option("RESOURCE", options->resource, "What is held")->required();
        return std::pair{added, options};
    };
    const auto add_holder = [](CLI::App* command, LeaseOptions& options) {
        return command->add_option("--holder", options.holder, "Who holds it")->type_name("NAME");
    };
    const auto add_ttl = [](CLI::App* command, LeaseOptions& options) {
        command->add_option("--ttl", options.ttl, "For how long (default: 30s)")->type_name("TIME");
    };
    const auto [acquire, acquire_options] =
        add("acquire", "Take a resource where nobody holds it", help::lease_acquire);
    add_holder(acquire, *acquire_options)->required();
    add_ttl(acquire, *acquire_options);
    const auto [renew, renew_options] = add("renew", "Hold a resource longer, under the same token", help::lease_renew);
    const auto [release, release_options] = add("release", "Give a resource back before its time", help::lease_release);
    for (const auto& [added, options] : {std::pair{renew, renew_options}, std::pair{release, release_options}}) {
        add_holder(added, *options)->required();
        added->add_option("--token", options->token, "The token it was granted with")->type_name("N")->required();
    }
    add_ttl(renew, *renew_options);
    add("show", "Show who holds a resource, and until when", help::lease_show);
    const auto [hold, hold_options] = add("hold", "Hold a resource while a command runs", help::lease_hold);
    help_->takes_command.emplace(hold, &hold_options->command);
    add_holder(hold, *hold_options);
    add_ttl(hold, *hold_options);
}

void Program::add_lab() {
    CLI::App* lab = group("lab", "A small bank on which Settle proves what it promises", help::lab);
    const auto add = [&](const std::string& action, const std::string& what, std::string_view more) {
        const auto options = std::make_shared<LabOptions>();
        options->action = action;
        command(lab, action, what, more, lab_command, options)
            ->add_option("--schema", options->schema, "Where its tables lie (default: public)")
            ->type_name("NAME");
    };
    add("init", "Make it in an empty schema, in any database", help::lab_init);
    add("verify", "Try it with real concurrency, and print what was seen", help::lab_verify);
}

void Program::add_demo() {
    command(&app_, "demo", "The guided story: work repeated, lost, frozen and undone, on real processes", help::demo,
            demo_command);
}

const CLI::App* Program::chosen() const {
    const CLI::App* app = &app_;
    while (!app->get_subcommands().empty()) {
        app = app->get_subcommands().front();
    }
    return app;
}

std::string Program::chosen_name() const {
    std::string name = app_.get_name();
    for (const CLI::App* app = &app_; !app->get_subcommands().empty();) {
        app = app->get_subcommands().front();
        name += " " + app->get_name();
    }
    return name;
}

std::string Program::explain(const CLI::ParseError& error) const {
    const CLI::App* app = chosen();
    const bool runs = runs_.contains(app);
    const Arguments rest = app_.remaining(true);
    const bool missing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
    if (!missing && dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) {
        return error.what();
    }
    if (!rest.empty() && !rest.front().starts_with('-') && !runs) {
        return fmt::format("there is no command `{} {}`", chosen_name(), rest.front());
    }
    if (!rest.empty()) {
        return fmt::format("`{}` takes no `{}`{}", chosen_name(), rest.front(),
                           help_->takes_command.contains(app) ? " (the program to run follows `--`)" : "");
    }
    return runs ? error.what() : fmt::format("`{}` needs a command", chosen_name());
}

int Program::usage_error(const std::string& message) {
    return report(context_, Error{.code = Code::invalid_argument,
                                  .message = fmt::format("{}; see `{} --help`", message, chosen_name()),
                                  .sqlstate = {},
                                  .detail = {}});
}

int Program::parse_and_run(Arguments arguments) {
    const Arguments own_command = split_command(arguments);
    if (const auto error = check_utf8(arguments)) {
        return report(context_, *error);
    }
    arguments = with_empty_values(arguments);
    std::ranges::reverse(arguments);  // as the parser wants it
    try {
        app_.parse(std::move(arguments));
    } catch (const CLI::CallForHelp&) {
        print(app_.help());
        return 0;
    } catch (const CLI::CallForVersion& version) {
        print(version.what());
        return 0;
    } catch (const CLI::ParseError& error) {
        return usage_error(explain(error));
    }
    const CLI::App* app = chosen();
    if (app == &app_) {
        print(app_.help());
        return info(Code::invalid_argument).exit_status;
    }
    if (const auto target = help_->takes_command.find(app); target != help_->takes_command.end()) {
        if (own_command.empty()) {
            return usage_error("the program to run is missing: it follows `--`");
        }
        *target->second = own_command;
    }
    if (!db_.empty()) {
        context_.db = db_;
    } else if (const char* named = std::getenv("SETTLE_DB"); named != nullptr && *named != '\0') {
        context_.db = named;
    }
    return runs_.at(app)(context_);
}

int Program::run(Arguments arguments) {
    context_.json = asks_for_json(arguments);
    try {
        return parse_and_run(std::move(arguments));
    } catch (const std::exception& fault) {
        return report(context_, Error{.code = Code::internal,
                                      .message = fmt::format("{}; this is a defect of Settle", fault.what()),
                                      .sqlstate = {},
                                      .detail = {}});
    }
}

// What a caller may have left in a state in which nothing works: closed standard streams (a connection would become
// standard output), ignored children, and SIGPIPE, which would end a command between its effect and its record.
void prepare_process() {
    for (int number = 0; number <= 2; ++number) {
        if (fcntl(number, F_GETFD) < 0) {
            static_cast<void>(!open("/dev/null", O_RDWR));
        }
    }
    static_cast<void>(std::signal(SIGCHLD, SIG_DFL));
    static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
}

}  // namespace
}  // namespace settle::cli

int main(int argc, char** argv) {
    settle::cli::prepare_process();
    const std::span<char*> words{argv, static_cast<std::size_t>(argc)};
    settle::cli::Program program;
    return settle::cli::finish(program.run({words.begin() + (argc > 0 ? 1 : 0), words.end()}));
}
