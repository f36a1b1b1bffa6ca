// A thin, blocking-with-deadline wrapper of libpq. No session state: every call works through a transaction-mode
// pooler.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"

struct pg_conn;
struct pg_result;

namespace settle::pg {

// A parameter in text form; nothing is NULL.
using Param = std::optional<std::string>;

// The rows of one answer. Columns are found by name; a name that is not there is a defect and throws std::logic_error.
class Rows {
public:
    explicit Rows(pg_result* result);

    [[nodiscard]] int count() const noexcept;
    [[nodiscard]] std::optional<std::string> text(int row, std::string_view column) const;
    [[nodiscard]] std::string require(int row, std::string_view column) const;  // NULL is a defect
    [[nodiscard]] std::optional<std::int64_t> integer(int row, std::string_view column) const;
    [[nodiscard]] bool boolean(int row, std::string_view column) const;  // NULL is false
    [[nodiscard]] std::string command_tag() const;                       // "UPDATE 1", "COMMIT", "ROLLBACK"
    [[nodiscard]] int affected() const;

private:
    struct Free {
        void operator()(pg_result* result) const noexcept;
    };
    std::unique_ptr<pg_result, Free> result_;
};

// One connection. Not thread-safe: one thread at a time. Move-only.
class Connection {
public:
    // Connects and checks what Settle needs of any database (UTF-8, PostgreSQL 15 or later). A password in `url`
    // appears in no error text.
    static Result<Connection> open(const std::string& url, Deadline deadline);

    // One statement, extended protocol, unnamed. When the deadline passes or the connection breaks, the connection is
    // closed and the error is `database_unreachable`: what the statement did is then not known to this call.
    Result<Rows> query(std::string_view sql, const std::vector<Param>& params, Deadline deadline);

    // Several statements in one string (simple protocol): schema files and transaction control.
    Result<void> script(std::string_view sql, Deadline deadline);

    // Sends without waiting; `receive` takes the answer. Used where two connections must be seen to wait.
    Result<void> send(std::string_view sql, const std::vector<Param>& params);
    Result<Rows> receive(Deadline deadline);

    // BEGIN with `SET LOCAL lock_timeout`; COMMIT whose own tag is checked (a COMMIT that answers ROLLBACK is an
    // error).
    Result<void> begin(Deadline deadline);
    Result<void> commit(Deadline deadline);
    void rollback(Deadline deadline) noexcept;

    [[nodiscard]] bool is_open() const noexcept;
    [[nodiscard]] int backend_pid() const noexcept;
    void close() noexcept;

private:
    struct Finish {
        void operator()(pg_conn* connection) const noexcept;
    };
    explicit Connection(pg_conn* connection);
    std::unique_ptr<pg_conn, Finish> connection_;
};

// Runs `body(connection)`, which returns a Result<T>, in one transaction: commits where it has a value, rolls back
// where it has an error or throws.
template <class Body>
auto in_transaction(Connection& connection, Deadline deadline, Body&& body) -> decltype(body(connection)) {
    if (auto begun = connection.begin(deadline); !begun) {
        return std::unexpected{begun.error()};
    }
    decltype(body(connection)) answer = std::unexpected{Error{}};
    try {
        answer = body(connection);
    } catch (...) {
        connection.rollback(deadline);
        throw;
    }
    if (!answer) {
        connection.rollback(deadline);
        return answer;
    }
    if (auto committed = connection.commit(deadline); !committed) {
        return std::unexpected{committed.error()};
    }
    return answer;
}

}  // namespace settle::pg
