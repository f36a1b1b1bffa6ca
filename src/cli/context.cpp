#include "cli/context.hpp"

#include <poll.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cerrno>
#include <cstring>

#include "base/limits.hpp"
#include "base/text.hpp"
#include "pg/private_server.hpp"
#include "store/migrator.hpp"

namespace settle::cli {
namespace {

int output_error = 0;  // errno of the first `print` that failed

int write_all(int file, std::string_view text) {
    while (!text.empty()) {
        const ssize_t written = write(file, text.data(), text.size());
        if (written >= 0) {
            text.remove_prefix(static_cast<std::size_t>(written));
        } else if (errno == EAGAIN) {
            pollfd waits{.fd = file, .events = POLLOUT, .revents = 0};
            poll(&waits, 1, -1);
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

// Settle's own errors carry JSON as detail, which is passed on as it is; the database's is text.
std::string detail_document(const std::string& detail) {
    if (detail.empty()) {
        return "null";
    }
    boost::system::error_code wrong;
    boost::json::parse(detail, wrong);
    return wrong || !is_utf8(detail) ? json_string(detail) : detail;
}

// `settle migrate` alone would upgrade another database where this one was named by --db. Its URL may hold a password.
Error naming_the_database(Error error) {
    constexpr std::string_view advice = "settle migrate";
    if (const std::size_t at = error.message.find(advice); at != std::string::npos) {
        error.message.replace(at, advice.size(), "`settle --db … migrate`");
    }
    return error;
}

Result<pg::Connection> open_named(const std::string& url, Deadline deadline) {
    auto connection = pg::Connection::open(url, deadline.at_most(limits::connect_wait));
    if (!connection) {
        return connection;
    }
    if (auto checked = store::check_schema(*connection, deadline.at_most(limits::statement_wait)); !checked) {
        return std::unexpected{naming_the_database(std::move(checked.error()))};
    }
    return connection;
}

struct Private {
    pg::Connection connection;
    std::string url;
};

Result<Private> open_private(Deadline deadline) {
    auto server = pg::PrivateServer::at_home();
    if (!server) {
        return std::unexpected{server.error()};
    }
    // It may be stopped between its answer and the connection: once more, then it is a real failure.
    for (int attempts_left = 1;; --attempts_left) {
        auto url = server->up(deadline.at_most(limits::server_start_wait));
        if (!url) {
            return std::unexpected{url.error()};
        }
        auto connection = pg::Connection::open(*url, deadline.at_most(limits::connect_wait));
        if (connection) {
            return Private{.connection = std::move(*connection), .url = std::move(*url)};
        }
        if (attempts_left == 0 || connection.error().code != Code::database_unreachable) {
            return std::unexpected{connection.error()};
        }
    }
}

Result<Private> open_migrated_private(Deadline deadline) {
    auto opened = open_private(deadline);
    if (!opened) {
        return opened;
    }
    const auto asked_by = deadline.at_most(limits::statement_wait);
    const auto current = store::is_current(opened->connection, asked_by);
    if (!current) {
        return std::unexpected{current.error()};
    }
    if (!*current) {
        if (auto migrated = store::migrate(opened->connection, asked_by); !migrated) {
            return std::unexpected{migrated.error()};
        }
    }
    return opened;
}

}  // namespace

Result<pg::Connection> connect(const Context& context, Deadline deadline) {
    if (context.db) {
        return open_named(*context.db, deadline);
    }
    auto opened = open_migrated_private(deadline);
    if (!opened) {
        return std::unexpected{opened.error()};
    }
    return std::move(opened->connection);
}

Result<std::string> database_url(const Context& context) {
    if (context.db) {
        return *context.db;
    }
    auto opened = open_migrated_private(Deadline::never());
    if (!opened) {
        return std::unexpected{opened.error()};
    }
    return std::move(opened->url);
}

std::string json_string(std::string_view text) {
    return boost::json::serialize(boost::json::string_view{is_utf8(text) ? std::string{text} : printable(text)});
}

int report(const Context& context, const Error& error) {
    const CodeInfo& code = info(error.code);
    if (context.json) {
        print(R"({"error":{"code":)" + json_string(code.name) + R"(,"message":)" + json_string(error.message) +
              R"(,"detail":)" + detail_document(error.detail) + "}}");
    }
    write_all(STDERR_FILENO, "settle: " + describe(error) + "\n");
    return code.exit_status;
}

void print(std::string_view text) {
    if (output_error != 0) {
        return;
    }
    std::string line{text};
    if (!line.ends_with('\n')) {
        line += '\n';
    }
    output_error = write_all(STDOUT_FILENO, line);
}

int finish(int status) {
    if (output_error == 0 || output_error == EPIPE) {
        return status;
    }
    const Error error{
        .code = Code::internal,
        .message = std::string{"the answer could not be written to standard output: "} + std::strerror(output_error),
        .sqlstate = {},
        .detail = {}};
    write_all(STDERR_FILENO, "settle: " + describe(error) + "\n");
    // What the command did is done all the same: its own verdict stays where it has one.
    return status == 0 ? info(error.code).exit_status : status;
}

}  // namespace settle::cli
