// A connection that is made again when it has broken, and what is worth trying again.
#pragma once

#include <optional>
#include <utility>

#include "cli/context.hpp"

namespace settle::cli {

// True where the same call may succeed later: the database is away, starting, full of connections, or had to undo the
// transaction because of another.
bool is_passing(const Error& error);

// Not thread-safe: one thread at a time, as its connection.
class Reconnecting {
public:
    explicit Reconnecting(Context context) : context_(std::move(context)) {}
    Reconnecting(Context context, pg::Connection first) : context_(std::move(context)), connection_(std::move(first)) {}

    // The open connection, made by `deadline` where there is none.
    Result<pg::Connection*> get(Deadline deadline = Deadline::never());

private:
    Context context_;
    std::optional<pg::Connection> connection_;
};

// Grows from 50 ms to 2 s.
class Backoff {
public:
    std::chrono::milliseconds next();

private:
    std::chrono::milliseconds next_{50};
};

}  // namespace settle::cli
