#include "cli/lab_verify.hpp"

#include <fmt/format.h>

#include <array>
#include <thread>
#include <utility>

#include "base/limits.hpp"
#include "cli/lab_business.hpp"
#include "cli/lab_figures.hpp"
#include "cli/wording.hpp"
#include "store/sql_text.hpp"

namespace settle::cli {
namespace {

namespace sql = store::sql;
using namespace std::chrono_literals;

constexpr auto lock_wait_deadline = 20s;  // seen within milliseconds where the wait is there at all
constexpr auto look_pause = 3ms;          // between two looks at pg_stat_activity

constexpr std::int64_t opening_balance = 1000;
constexpr std::int64_t price = 100;

Deadline soon() {
    return Deadline::in(limits::statement_wait);
}

template <class Value>
std::unexpected<Error> error_in(const Result<Value>& failed) {
    return std::unexpected{failed.error()};
}

std::unexpected<Error> not_fresh(const std::string& schema, const std::string& why) {
    return invalid_argument(
        "schema", fmt::format("{} has no freshly initialised laboratory ({}): run `settle lab init` on an empty schema",
                              schema, why));
}

// The laboratory of the schema, where nothing has happened in it yet.
Result<Laboratory> find_laboratory(pg::Connection& connection, const std::string& schema) {
    const auto missing = connection.query(sql::lab_missing, {schema}, soon());
    if (!missing) {
        return error_in(missing);
    }
    if (const auto names = missing->text(0, "missing")) {
        return not_fresh(schema, *names + " missing");
    }
    Laboratory laboratory{.schema = schema, .name_space = {}};
    const auto state = pg::in_transaction(connection, soon(), [&](pg::Connection& here) -> Result<pg::Rows> {
        if (auto entered = enter(here, laboratory); !entered) {
            return error_in(entered);
        }
        return here.query(sql::lab_state, {}, soon());
    });
    if (!state) {
        return error_in(state);
    }
    const auto name_space = state->text(0, "namespace");
    if (!name_space) {
        return not_fresh(schema, "lab_setting names no namespace");
    }
    laboratory.name_space = *name_space;
    constexpr std::array<std::pair<const char*, std::int64_t>, 7> fresh{{{"accounts", 1},
                                                                         {"balance", opening_balance},
                                                                         {"ledger_rows", 0},
                                                                         {"resource_rows", 0},
                                                                         {"compensation_rows", 0},
                                                                         {"operation_rows", 0},
                                                                         {"lease_rows", 0}}};
    for (const auto& [name, expected] : fresh) {
        if (const auto found = state->integer(0, name); found != expected) {
            return not_fresh(
                schema, fmt::format("{} is {}, not {}", name, found ? std::to_string(*found) : "nothing", expected));
        }
    }
    return laboratory;
}

// Each step ends with its line; its answer is whether to go on.
class Verification {
public:
    Verification(Laboratory laboratory, std::string url, Figures& figures)
        : laboratory_(std::move(laboratory)), url_(std::move(url)), figures_(figures) {}

    Result<bool> run();

private:
    Result<pg::Connection> open() { return pg::Connection::open(url_, Deadline::in(limits::connect_wait)); }

    Result<bool> two_at_once();
    Result<bool> see_wait(std::int64_t waiter, std::int64_t holder);
    Result<bool> other_parameters();
    Result<bool> error_half_way();
    Result<bool> lost_answer();
    Result<bool> stale_holder();
    Result<void> both_write(std::int64_t old_token, std::int64_t new_token);
    Result<bool> undo_twice();

    const Debit order_a_{.key = "order-A", .amount = price};
    const Debit order_b_{.key = "order-B", .amount = price};
    Laboratory laboratory_;
    std::string url_;
    Figures& figures_;
    std::optional<pg::Connection> one_;
    std::optional<pg::Connection> two_;
    std::optional<pg::Connection> watcher_;
};

Result<bool> Verification::run() {
    for (auto* connection : {&one_, &two_, &watcher_}) {
        auto opened = open();
        if (!opened) {
            return error_in(opened);
        }
        *connection = std::move(*opened);
    }
    for (const auto step : {&Verification::two_at_once, &Verification::other_parameters, &Verification::error_half_way,
                            &Verification::lost_answer, &Verification::stale_holder, &Verification::undo_twice}) {
        auto good = (this->*step)();
        if (!good || !*good) {
            return good;
        }
    }
    return true;
}

// Whether `waiter` was seen to wait for a lock of `holder`: twice in a row, so that a timeout of a moment has passed
// between the looks and shows in the answer.
Result<bool> Verification::see_wait(std::int64_t waiter, std::int64_t holder) {
    const auto deadline = Deadline::in(lock_wait_deadline);
    for (int seen = 0; !deadline.passed();) {
        const auto look = watcher_->query(sql::lab_lock_wait, {std::to_string(waiter), std::to_string(holder)}, soon());
        if (!look) {
            return error_in(look);
        }
        if (look->count() == 0 || look->boolean(0, "answered")) {
            return false;
        }
        seen = look->boolean(0, "waiting") ? seen + 1 : 0;
        if (seen == 2) {
            return true;
        }
        std::this_thread::sleep_for(look_pause);
    }
    return false;
}

// The second caller's transaction keeps its session's own lock_timeout, so that whoever takes the wait away is seen to
// have done so.
Result<bool> Verification::two_at_once() {
    if (auto begun = one_->begin(soon()); !begun) {
        return error_in(begun);
    }
    const auto holder = enter(*one_, laboratory_);
    if (!holder) {
        return error_in(holder);
    }
    const auto first = begin_debit(*one_, laboratory_, order_a_);
    if (!first) {
        return error_in(first);
    }
    if (first->outcome == "started") {
        const auto balance = move_money(*one_, order_a_);
        if (!balance) {
            return error_in(balance);
        }
        const auto result = complete_debit(*one_, laboratory_, order_a_, first->token.value(), *balance);
        if (!result) {
            return error_in(result);
        }
    }
    if (auto begun = two_->script("BEGIN ISOLATION LEVEL READ COMMITTED", soon()); !begun) {
        return error_in(begun);
    }
    const auto waiter = enter(*two_, laboratory_);
    if (!waiter) {
        return error_in(waiter);
    }
    if (auto sent = send_debit(*two_, laboratory_, order_a_); !sent) {
        return error_in(sent);
    }
    const auto waited = see_wait(*waiter, *holder);
    if (!waited) {
        return error_in(waited);
    }
    if (auto committed = one_->commit(soon()); !committed) {
        return error_in(committed);
    }
    const auto second = two_->receive(soon());
    if (!second) {
        return error_in(second);
    }
    two_->rollback(soon());  // it has written nothing
    const auto facts = lab_facts(*one_, laboratory_);
    if (!facts) {
        return error_in(facts);
    }
    figures_.shown("concurrentClaim", "APPLIED,REPLAY",
                   claim_word(first->outcome) + "," + claim_word(second->require(0, "outcome")));
    // A wait that the session's own lock_timeout cut short was not a wait for the first caller.
    figures_.shown("lockWaitObserved", true, *waited && second->text(0, "outcome") != "in_progress");
    figures_.shown("ledgerRows", 1, figure(facts->ledger_rows));
    figures_.asserted("balanceAfterPair", opening_balance - price, figure(facts->balance));
    figures_.asserted("replayedResult", R"({"balance": 900})", figure(second->text(0, "result")));
    return figures_.end_line();
}

Result<bool> Verification::other_parameters() {
    const auto answer = debit_once(*two_, laboratory_, {.key = order_a_.key, .amount = price + 1});
    if (!answer) {
        return error_in(answer);
    }
    const auto facts = lab_facts(*two_, laboratory_);
    if (!facts) {
        return error_in(facts);
    }
    figures_.shown_bare("otherParameters", "IDEMPOTENCY_PARAMETER_CONFLICT",
                        answer->outcome == "conflict" ? failure_code(*answer) : claim_word(answer->outcome));
    figures_.asserted("balanceAfterConflict", opening_balance - price, figure(facts->balance));
    figures_.asserted("ledgerRowsAfterConflict", 1, figure(facts->ledger_rows));
    return figures_.end_line();
}

Result<bool> Verification::error_half_way() {
    const auto sqlstate = debit_with_error(*one_, laboratory_, order_b_);
    if (!sqlstate) {
        return error_in(sqlstate);
    }
    const auto facts = lab_facts(*two_, laboratory_);
    if (!facts) {
        return error_in(facts);
    }
    figures_.shown("rollbackSqlState", "P0001", *sqlstate);
    figures_.shown("operationRows", 0, figure(facts->order_b_operations));
    figures_.shown("balance", opening_balance - price, figure(facts->balance));
    figures_.asserted("ledgerRowsOfOrderBAfterRollback", 0, figure(facts->order_b_ledger_rows));
    figures_.asserted("orderAAfterRollback", "succeeded", figure(facts->order_a_status));
    figures_.asserted("ledgerOfOrderAAfterRollback", price, figure(facts->order_a_ledger));
    return figures_.end_line();
}

// Order-B for real. Its caller never learns how it ended; whoever asks by its key does, and waits where COMMIT is still
// under way.
Result<bool> Verification::lost_answer() {
    auto caller = open();
    if (!caller) {
        return error_in(caller);
    }
    const auto meant = debit_and_vanish(std::move(*caller), laboratory_, order_b_);
    if (!meant) {
        return error_in(meant);
    }
    const auto found = debit_once(*one_, laboratory_, order_b_);
    if (!found) {
        return error_in(found);
    }
    const auto again = debit_once(*two_, laboratory_, order_b_);
    if (!again) {
        return error_in(again);
    }
    const auto facts = lab_facts(*one_, laboratory_);
    if (!facts) {
        return error_in(facts);
    }
    const bool resolved = found->outcome == "replayed" && found->status == "succeeded" && found->result == *meant;
    figures_.shown("unknownResult", "resolvedByOperationKey",
                   resolved ? "resolvedByOperationKey" : claim_word(found->outcome));
    figures_.shown("retry", "REPLAY", claim_word(again->outcome));
    figures_.asserted("retriedResult", *meant, figure(again->result));
    figures_.asserted("balanceAfterOrderB", opening_balance - 2 * price, figure(facts->balance));
    figures_.asserted("ledgerRowsOfOrderB", 1, figure(facts->order_b_ledger_rows));
    return figures_.end_line();
}

Result<bool> Verification::stale_holder() {
    const store::ResourceName task{.name_space = laboratory_.name_space, .resource = "settle"};
    constexpr auto ttl = 1h;  // only moving the deadline ends it
    const auto old_lease = store::acquire_lease(*one_, task, "holder-1", ttl, soon());
    if (!old_lease) {
        return error_in(old_lease);
    }
    if (auto made = make_resource(*one_, laboratory_, old_lease->token.value_or(0), 10); !made) {
        return error_in(made);
    }
    const auto too_early = store::acquire_lease(*two_, task, "holder-2", ttl, soon());
    if (!too_early) {
        return error_in(too_early);
    }
    const auto lapsed = lapse_lease(*watcher_, task, old_lease->token.value_or(0));
    if (!lapsed) {
        return error_in(lapsed);
    }
    const auto new_lease = store::acquire_lease(*two_, task, "holder-2", ttl, soon());
    if (!new_lease) {
        return error_in(new_lease);
    }
    figures_.shown("oldToken", 1, figure(old_lease->token));
    figures_.shown("newToken", 2, figure(new_lease->token));
    figures_.asserted("leaseWhileHeld", "held", too_early->outcome);
    figures_.asserted("leasesLapsed", 1, *lapsed);
    figures_.asserted("leaseAfterLapse", "granted", new_lease->outcome);
    if (auto wrote = both_write(old_lease->token.value_or(0), new_lease->token.value_or(0)); !wrote) {
        return error_in(wrote);
    }
    const auto facts = lab_facts(*one_, laboratory_);
    if (!facts) {
        return error_in(facts);
    }
    figures_.asserted("value", 20, figure(facts->value));
    return figures_.end_line();
}

// The old holder tries twice: before its successor has written, when only the lease tells, and after, when the
// resource's own fence tells, too.
Result<void> Verification::both_write(std::int64_t old_token, std::int64_t new_token) {
    const auto early = write_resource(*one_, laboratory_, old_token, 11, true);
    if (!early) {
        return error_in(early);
    }
    const auto current = write_resource(*two_, laboratory_, new_token, 20, true);
    if (!current) {
        return error_in(current);
    }
    const auto late = write_resource(*one_, laboratory_, old_token, 12, false);
    if (!late) {
        return error_in(late);
    }
    figures_.shown("staleWriteRows", 0, early->rows + late->rows);
    figures_.shown("currentWriteRows", 1, current->rows);
    figures_.asserted("staleTokenRefused", true, early->stale);
    return {};
}

Result<bool> Verification::undo_twice() {
    const auto first = refund(*one_, laboratory_, order_a_);
    if (!first) {
        return error_in(first);
    }
    const auto second = refund(*two_, laboratory_, order_a_);
    if (!second) {
        return error_in(second);
    }
    const auto facts = lab_facts(*one_, laboratory_);
    if (!facts) {
        return error_in(facts);
    }
    figures_.shown("compensationRows", 1, figure(facts->compensation_rows));
    figures_.shown("finalBalance", opening_balance - price, figure(facts->balance));
    figures_.asserted("undo", "APPLIED,REPLAY",
                      claim_word(first->answer.outcome) + "," + claim_word(second->answer.outcome));
    figures_.asserted("refundRows", 1, first->rows + second->rows);
    figures_.asserted("orderAAtTheEnd", "succeeded", figure(facts->order_a_status));
    return figures_.end_line();
}

std::string document(const Laboratory& laboratory, const Figures& figures, bool verified) {
    return fmt::format(R"({{"schema":{},"namespace":{},"verified":{},{},"differences":{}}})",
                       json_string(laboratory.schema), json_string(laboratory.name_space), verified, figures.members(),
                       verified ? "null" : json_string(figures.differences()));
}

}  // namespace

int verify_laboratory(const Context& context, const std::string& schema) {
    auto connection = connect(context);
    if (!connection) {
        return report(context, connection.error());
    }
    const auto laboratory = find_laboratory(*connection, schema);
    if (!laboratory) {
        return report(context, laboratory.error());
    }
    if (context.name_space != "default" && context.name_space != laboratory->name_space) {
        return report(context, invalid_argument("namespace", fmt::format("the laboratory in schema {} uses {}; it is "
                                                                         "found without --namespace",
                                                                         schema, laboratory->name_space))
                                   .error());
    }
    connection->close();
    auto url = database_url(context);
    if (!url) {
        return report(context, url.error());
    }
    Figures figures{context.json};
    const auto verified = Verification{*laboratory, std::move(*url), figures}.run();
    if (!verified) {
        return report(context, verified.error());
    }
    if (context.json) {
        print(document(*laboratory, figures, *verified));
    }
    if (!*verified) {
        warn(fmt::format("lab verify: {}; the laboratory in schema {} is left as it stands", figures.differences(),
                         schema));
        return 1;
    }
    return 0;
}

}  // namespace settle::cli
