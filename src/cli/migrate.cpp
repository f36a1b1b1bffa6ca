// settle migrate: installs the schema in a database, or brings it to this program's version.
#include <fmt/format.h>

#include "base/limits.hpp"
#include "cli/commands.hpp"
#include "pg/private_server.hpp"
#include "store/migrator.hpp"

namespace settle::cli {
namespace {

Result<std::string> unmigrated_url(const Context& context) {
    if (context.db) {
        return *context.db;
    }
    auto server = pg::PrivateServer::at_home();
    if (!server) {
        return std::unexpected{server.error()};
    }
    return server->up(Deadline::in(limits::server_start_wait));
}

std::string line(const store::MigrationReport& done) {
    if (done.applied == 0 && done.functions_renewed == 0) {
        return fmt::format("the schema is at version {}: nothing to do", done.version);
    }
    return fmt::format("the schema is at version {} now: {} migration{} applied, {} file{} of functions renewed",
                       done.version, done.applied, done.applied == 1 ? "" : "s", done.functions_renewed,
                       done.functions_renewed == 1 ? "" : "s");
}

}  // namespace

int migrate_command(const Context& context, const MigrateOptions& options) {
    if (options.print) {
        const std::string script = store::migration_script();
        print(context.json ? fmt::format(R"({{"sql":{}}})", json_string(script)) : script);
        return 0;
    }
    auto url = unmigrated_url(context);
    if (!url) {
        return report(context, url.error());
    }
    auto connection = pg::Connection::open(*url, Deadline::in(limits::connect_wait));
    if (!connection) {
        return report(context, connection.error());
    }
    auto done = store::migrate(*connection, Deadline::in(limits::statement_wait));
    if (!done) {
        return report(context, done.error());
    }
    print(context.json ? fmt::format(R"({{"version":{},"applied":{},"functions_renewed":{}}})", done->version,
                                     done->applied, done->functions_renewed)
                       : line(*done));
    return 0;
}

}  // namespace settle::cli
