// settle db up | down | status | url: the private PostgreSQL.
#include <fmt/format.h>

#include "base/limits.hpp"
#include "cli/commands.hpp"
#include "pg/private_server.hpp"

namespace settle::cli {
namespace {

constexpr auto stop_wait = std::chrono::seconds{60};  // a fast shutdown writes a checkpoint

std::string document(const pg::ServerState& state) {
    return fmt::format(
        R"({{"initialised":{},"running":{},"pid":{},"version":{},"data_directory":{},"log_file":{},"url":{}}})",
        state.initialised, state.running, state.running ? std::to_string(state.pid) : "null",
        state.initialised ? json_string(state.version) : "null", json_string(state.data_directory),
        json_string(state.log_file), json_string(state.url));
}

std::string line(const pg::ServerState& state) {
    if (state.running) {
        return fmt::format("running: PostgreSQL {}, pid {}, {}", state.version, state.pid, state.url);
    }
    return fmt::format("stopped: {} {}; any command that needs it starts it, and so does `settle db up`",
                       state.initialised ? "the cluster lies in" : "there is no cluster yet; it will be made in",
                       state.data_directory);
}

int show_state(const Context& context, const pg::PrivateServer& server, bool question) {
    auto state = server.status();
    if (!state) {
        return report(context, state.error());
    }
    print(context.json ? document(*state) : line(*state));
    return question && !state->running ? 1 : 0;
}

int print_url(const Context& context) {
    // The private server's, whatever database is named; with the schema in it, as psql's user will expect.
    Context own = context;
    own.db.reset();
    auto url = database_url(own);
    if (!url) {
        return report(context, url.error());
    }
    print(context.json ? fmt::format(R"({{"url":{}}})", json_string(*url)) : *url);
    return 0;
}

}  // namespace

int db_command(const Context& context, const DbOptions& options) {
    if (options.action == "url") {
        return print_url(context);
    }
    auto server = pg::PrivateServer::at_home();
    if (!server) {
        return report(context, server.error());
    }
    if (options.action == "up") {
        if (auto url = server->up(Deadline::in(limits::server_start_wait)); !url) {
            return report(context, url.error());
        }
    } else if (options.action == "down") {
        if (auto stopped = server->down(Deadline::in(stop_wait)); !stopped) {
            return report(context, stopped.error());
        }
    } else if (options.action != "status") {
        return report(context, invalid_argument("db", "the action is up, down, status or url").error());
    }
    return show_state(context, *server, options.action == "status");
}

}  // namespace settle::cli
