// An operation's execution as `exec` sees it: begun once, renewed while the command runs, ended once; each of them
// carried through lost answers and restarts of the database.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/trust_window.hpp"
#include "cli/reconnecting.hpp"
#include "engine/heartbeat.hpp"
#include "handler/signal_gate.hpp"
#include "store/operation.hpp"

namespace settle::cli {

struct ExecutionRequest {
    store::BeginRequest begin;  // with owner and lease
    bool rerun = false;
    std::string operator_name;
    std::string reason;
};

struct BegunExecution {
    store::BeginAnswer answer;  // `started`, also where an earlier answer that said so was lost
    bool opaque = false;        // a holder that vanishes from now on leaves it unknown
    BootClock::time_point sent_at;
    int interrupted_by = 0;  // a signal that ended the wait for an answer; nothing else is known then
};

// In one transaction: begins the operation and, where its effect is opaque, marks it as sent. Where the answer is lost,
// asks again under the same owner, so that its own lease is known for its own. A signal that asks to end ends that.
Result<BegunExecution> begin_execution(Reconnecting& database, const ExecutionRequest& request,
                                       handler::SignalGate& signals);

// Who holds what, for every later call.
struct Holding {
    store::OperationName operation;
    std::string owner;
    std::chrono::milliseconds lease{};
    std::int64_t token = 0;
};

// One renewal over `database`.
Result<engine::Beat> renew_execution(Reconnecting& database, const Holding& holding, Deadline deadline);

// How an execution ends.
struct Ending {
    enum class Kind { complete, refuse, fail };
    Kind kind = Kind::complete;
    std::string document;    // complete: the result; refuse: the detail
    std::string code;        // refuse
    store::Failure failure;  // fail
};

// Writes the ending down, again and again for `limits::record_wait` if need be; each try is the same, so that one whose
// answer was lost changes nothing more. A signal that asks to end gives up early.
Result<store::EndAnswer> record_ending(Reconnecting& database, const Holding& holding, const Ending& ending,
                                       handler::SignalGate& signals);

}  // namespace settle::cli
