#include "pg/connection.hpp"

#include <fmt/format.h>
#include <libpq-fe.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include "base/limits.hpp"
#include "pg/failure.hpp"
#include "pg/url.hpp"

namespace settle::pg {
namespace {

constexpr int oldest_server = 150000;

using ResultHandle = std::unique_ptr<pg_result, decltype([](pg_result* result) { PQclear(result); })>;

enum class Waited { ready, deadline, broken };

struct Ready {
    Waited waited = Waited::broken;
    bool readable = false;
};

Ready wait_for(const pg_conn* connection, bool to_write, Deadline deadline) {
    pollfd entry{.fd = PQsocket(connection), .events = POLLIN, .revents = 0};
    if (entry.fd < 0) {
        return {Waited::broken};
    }
    if (to_write) {
        entry.events = POLLIN | POLLOUT;
    }
    for (;;) {
        constexpr std::int64_t most = std::numeric_limits<int>::max();
        const auto left_ms = static_cast<int>(std::min<std::int64_t>(deadline.left().count(), most));
        const int count = poll(&entry, 1, left_ms);
        if (count > 0) {
            return {Waited::ready, (entry.revents & ~POLLOUT) != 0};
        }
        if (count == 0 && deadline.passed()) {
            return {Waited::deadline};
        }
        if (count < 0 && errno != EINTR) {
            return {Waited::broken};
        }
    }
}

void ignore_notice(void* /*unused*/, const pg_result* /*unused*/) {}

// What COMMIT's notices say about the copy on the standby.
struct CommitNotices {
    bool perhaps_not_replicated = false;
};

// A cancelled wait for the standby leaves a commit that may vanish at a failover, and COMMIT still answers COMMIT. The
// warning's text may be translated; the function that gives it is not.
void read_commit_notice(void* target, const pg_result* notice) {
    const char* source = PQresultErrorField(notice, PG_DIAG_SOURCE_FUNCTION);
    const char* detail = PQresultErrorField(notice, PG_DIAG_MESSAGE_DETAIL);
    const bool from_wait = source != nullptr && std::string_view{source} == "SyncRepWaitForLSN";
    const bool says_so = detail != nullptr && std::string_view{detail}.contains("might not have been replicated");
    if (from_wait || says_so) {
        static_cast<CommitNotices*>(target)->perhaps_not_replicated = true;
    }
}

Error lost(std::string_view text) {
    return Error{.code = Code::database_unreachable, .message = std::string{text}, .sqlstate = {}, .detail = {}};
}

std::unexpected<Error> closed() {
    return fail(Code::database_unreachable, "the connection to the database is closed");
}

Result<void> check_server(pg_conn* connection) {
    const int version = PQserverVersion(connection);
    if (version < oldest_server) {
        return fail(Code::unsupported_schema,
                    fmt::format("the server is PostgreSQL {}; 15 or later is needed", version / 10000));
    }
    const char* encoding = PQparameterStatus(connection, "server_encoding");
    if (encoding != nullptr && std::string_view{encoding} != "UTF8") {
        return fail(Code::unsupported_schema,
                    fmt::format("the database's encoding is {}; create one with encoding UTF8", encoding));
    }
    return {};
}

// Sends what is still unsent, then reads until one more result is whole. Nothing is left when the pointer is null.
Result<ResultHandle> next_result(pg_conn* connection, Deadline deadline) {
    for (;;) {
        const int unsent = PQflush(connection);
        if (unsent < 0) {
            // The server may have said why before it went; libpq gives that as a result.
            if (PQconsumeInput(connection) == 0 || PQisBusy(connection) != 0) {
                return std::unexpected{unreachable("the connection to the database was lost", connection, {})};
            }
        }
        if (unsent <= 0 && PQisBusy(connection) == 0) {
            return ResultHandle{PQgetResult(connection)};
        }
        const Ready ready = wait_for(connection, unsent > 0, deadline);
        if (ready.waited == Waited::deadline) {
            return std::unexpected{lost("the database did not answer in time; what the statement did is not known")};
        }
        if (ready.waited == Waited::broken ||
            (ready.readable && PQconsumeInput(connection) == 0 && PQisBusy(connection) != 0)) {
            return std::unexpected{unreachable("the connection to the database was lost", connection, {})};
        }
    }
}

// All results of what was sent: the last one, or the first error. `usable` is false where the connection must not be
// used again.
struct Drained {
    Result<ResultHandle> result;
    bool usable;
};

Drained drain(pg_conn* connection, Deadline deadline) {
    ResultHandle last;
    std::optional<Error> error;
    for (;;) {
        auto next = next_result(connection, deadline);
        if (!next) {
            return {std::unexpected{std::move(error).value_or(std::move(next.error()))}, false};
        }
        if (!*next) {
            break;
        }
        switch (PQresultStatus(next->get())) {
            case PGRES_COMMAND_OK:
            case PGRES_TUPLES_OK:
            case PGRES_EMPTY_QUERY:
                last = *std::move(next);
                break;
            case PGRES_COPY_IN:
            case PGRES_COPY_OUT:
            case PGRES_COPY_BOTH:
                return {fail(Code::internal, "COPY is not supported here"), false};
            default:
                error = std::move(error).value_or(error_of(next->get()));
        }
    }
    const bool usable = PQstatus(connection) == CONNECTION_OK;
    if (error) {
        if (!usable) {
            error->code = Code::database_unreachable;
            error->message = fmt::format("the connection to the database was lost: {}", error->message);
        }
        return {std::unexpected{*std::move(error)}, usable};
    }
    if (!last) {
        return {fail(Code::internal, "the database gave no answer to the statement"), usable};
    }
    return {std::move(last), usable};
}

Result<void> finish_connecting(pg_conn* connection, const std::vector<std::string>& secrets, Deadline deadline) {
    constexpr std::string_view doing = "cannot connect to the database";
    if (connection == nullptr || PQstatus(connection) == CONNECTION_BAD) {
        return std::unexpected{unreachable(doing, connection, secrets)};
    }
    PostgresPollingStatusType wanted = PGRES_POLLING_WRITING;
    while (wanted != PGRES_POLLING_OK) {
        if (wanted == PGRES_POLLING_FAILED) {
            return std::unexpected{unreachable(doing, connection, secrets)};
        }
        pollfd entry{.fd = PQsocket(connection), .events = POLLIN, .revents = 0};
        entry.events = wanted == PGRES_POLLING_WRITING ? POLLOUT : POLLIN;
        const auto left_ms = static_cast<int>(std::min<std::int64_t>(deadline.left().count(), 60'000));
        const int count = poll(&entry, 1, left_ms);
        if (count <= 0 && deadline.passed()) {
            return std::unexpected{lost("cannot connect to the database: no answer in time; is the address right?")};
        }
        if (count > 0) {
            wanted = PQconnectPoll(connection);
        }
    }
    return {};
}

}  // namespace

void Connection::Finish::operator()(pg_conn* connection) const noexcept {
    PQfinish(connection);
}

Connection::Connection(pg_conn* connection) : connection_(connection) {}

Result<Connection> Connection::open(const std::string& url, Deadline deadline) {
    auto secrets = secrets_of(url);
    if (!secrets) {
        return std::unexpected{std::move(secrets.error())};
    }
    // What stands before "dbname" is a default that the URL may change; what stands after it wins. A peer that is gone
    // is noticed within half a minute, and the server gives up its locks for it as soon as its own settings say.
    constexpr std::array keywords{
        "fallback_application_name", "keepalives_idle", "keepalives_interval", "keepalives_count",
        "tcp_user_timeout",          "dbname",          "client_encoding",     static_cast<const char*>(nullptr)};
    const std::array<const char*, keywords.size()> values{"settle", "10",        "5",    "4",
                                                          "30000",  url.c_str(), "UTF8", nullptr};
    Connection connection{PQconnectStartParams(keywords.data(), values.data(), 1)};
    if (auto connected = finish_connecting(connection.connection_.get(), *secrets, deadline); !connected) {
        return std::unexpected{std::move(connected.error())};
    }
    pg_conn* raw = connection.connection_.get();
    PQsetNoticeReceiver(raw, ignore_notice, nullptr);
    if (auto usable = check_server(raw); !usable) {
        return std::unexpected{std::move(usable.error())};
    }
    if (PQsetnonblocking(raw, 1) != 0) {
        return std::unexpected{unreachable("cannot connect to the database", raw, *secrets)};
    }
    return connection;
}

Result<Rows> Connection::query(std::string_view sql, const std::vector<Param>& params, Deadline deadline) {
    if (auto sent = send(sql, params); !sent) {
        return std::unexpected{std::move(sent.error())};
    }
    return receive(deadline);
}

Result<void> Connection::send(std::string_view sql, const std::vector<Param>& params) {
    if (!connection_) {
        return closed();
    }
    std::vector<const char*> values;
    values.reserve(params.size());
    for (const Param& param : params) {
        // libpq would end the text there without a word.
        if (param && param->contains('\0')) {
            return fail(Code::invalid_argument,
                        fmt::format("parameter {}: U+0000 cannot be stored", values.size() + 1));
        }
        values.push_back(param ? param->c_str() : nullptr);
    }
    const std::string text{sql};
    if (PQsendQueryParams(connection_.get(), text.c_str(), static_cast<int>(values.size()), nullptr, values.data(),
                          nullptr, nullptr, 0) == 0) {
        if (PQstatus(connection_.get()) == CONNECTION_OK) {
            return fail(Code::internal, one_line(PQerrorMessage(connection_.get())));
        }
        Error error = unreachable("the connection to the database was lost", connection_.get(), {});
        close();
        return std::unexpected{std::move(error)};
    }
    // As much as the socket takes now; `receive` sends the rest, and meets the error if the peer is gone.
    PQflush(connection_.get());
    return {};
}

Result<Rows> Connection::receive(Deadline deadline) {
    if (!connection_) {
        return closed();
    }
    Drained drained = drain(connection_.get(), deadline);
    if (!drained.usable) {
        close();
    }
    if (!drained.result) {
        return std::unexpected{std::move(drained.result.error())};
    }
    return Rows{drained.result->release()};
}

Result<void> Connection::script(std::string_view sql, Deadline deadline) {
    if (!connection_) {
        return closed();
    }
    const std::string text{sql};
    if (PQsendQuery(connection_.get(), text.c_str()) == 0) {
        Error error = unreachable("the statement could not be sent", connection_.get(), {});
        close();
        return std::unexpected{std::move(error)};
    }
    if (auto done = receive(deadline); !done) {
        return std::unexpected{std::move(done.error())};
    }
    return {};
}

Result<void> Connection::begin(Deadline deadline) {
    // READ COMMITTED by name: the database's default may be another. So may its search_path, and there somebody may
    // have made functions under the names of PostgreSQL's. All go in one round trip.
    return script(fmt::format("BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {}; "
                              "SET LOCAL search_path = pg_catalog, pg_temp",
                              milliseconds{limits::lock_wait}.count()),
                  deadline);
}

Result<void> Connection::commit(Deadline deadline) {
    if (!connection_) {
        return closed();
    }
    CommitNotices notices;
    PQsetNoticeReceiver(connection_.get(), read_commit_notice, &notices);
    const auto done = query("COMMIT", {}, deadline);
    if (connection_) {
        PQsetNoticeReceiver(connection_.get(), ignore_notice, nullptr);
    }
    if (notices.perhaps_not_replicated) {
        return fail(Code::outcome_unknown,
                    "the transaction is committed here, but may not have reached the standby; look it up before "
                    "doing it again");
    }
    if (!done) {
        return std::unexpected{done.error()};
    }
    if (done->command_tag() != "COMMIT") {
        return fail(Code::internal, "the transaction had failed: COMMIT rolled it back, nothing was changed");
    }
    return {};
}

void Connection::rollback(Deadline deadline) noexcept {
    if (!connection_) {
        return;
    }
    switch (PQtransactionStatus(connection_.get())) {
        case PQTRANS_IDLE:
            return;
        case PQTRANS_INTRANS:
        case PQTRANS_INERROR:
            break;
        default:  // a statement is still running: only closing ends it for sure
            close();
            return;
    }
    try {
        if (!script("ROLLBACK", deadline)) {
            close();
        }
    } catch (...) {
        close();
    }
}

bool Connection::is_open() const noexcept {
    return connection_ && PQstatus(connection_.get()) == CONNECTION_OK;
}

int Connection::backend_pid() const noexcept {
    return connection_ ? PQbackendPID(connection_.get()) : 0;
}

void Connection::close() noexcept {
    connection_.reset();
}

}  // namespace settle::pg
