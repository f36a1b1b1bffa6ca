#include "cli/lab_business.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <utility>

#include "base/limits.hpp"
#include "store/sql_text.hpp"

namespace settle::cli {
namespace {

namespace sql = store::sql;

constexpr auto debit_kind = "lab.debit";
constexpr auto task = "settle";

Deadline soon() {
    return Deadline::in(limits::statement_wait);
}

std::string request_of(const Debit& debit) {
    return fmt::format(R"({{"account":1,"amount":{}}})", debit.amount);
}

template <class Value>
std::unexpected<Error> error_in(const Result<Value>& failed) {
    return std::unexpected{failed.error()};
}

// One transaction in the laboratory's schema.
template <class Body>
auto in_laboratory(pg::Connection& connection, const Laboratory& laboratory, Body&& body) {
    return pg::in_transaction(connection, soon(), [&](pg::Connection& here) -> decltype(body(here)) {
        if (auto entered = enter(here, laboratory); !entered) {
            return error_in(entered);
        }
        return body(here);
    });
}

}  // namespace

std::string claim_word(const std::string& outcome) {
    if (outcome == "started") {
        return "APPLIED";
    }
    if (outcome == "replayed") {
        return "REPLAY";
    }
    std::string word = outcome;
    std::ranges::transform(word, word.begin(), [](char letter) {
        return letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
    });
    return word;
}

Result<std::int64_t> enter(pg::Connection& connection, const Laboratory& laboratory) {
    const auto rows = connection.query(sql::lab_enter, {laboratory.schema}, soon());
    if (!rows) {
        return error_in(rows);
    }
    return rows->integer(0, "backend_pid").value();
}

Result<store::BeginAnswer> begin_debit(pg::Connection& connection, const Laboratory& laboratory, const Debit& debit) {
    return store::begin_operation(connection,
                                  {.operation = {.name_space = laboratory.name_space, .key = debit.key},
                                   .kind = debit_kind,
                                   .request = request_of(debit),
                                   .owner = "settle-lab",
                                   .lease = std::nullopt,
                                   .effect = std::nullopt},
                                  soon());
}

Result<void> send_debit(pg::Connection& connection, const Laboratory& laboratory, const Debit& debit) {
    return connection.send(sql::begin_operation, {debit.key, debit_kind, request_of(debit), laboratory.name_space,
                                                  "call", "settle-lab", std::nullopt, std::nullopt});
}

std::string failure_code(const store::BeginAnswer& answer) {
    boost::system::error_code wrong;
    const auto failure = boost::json::parse(answer.failure.value_or("null"), wrong);
    const auto* object = failure.if_object();
    const auto* code = object != nullptr ? object->if_contains("code") : nullptr;
    return code != nullptr && code->is_string() ? std::string{code->get_string()} : std::string{};
}

Result<std::int64_t> move_money(pg::Connection& connection, const Debit& debit) {
    const auto moved = connection.query(sql::lab_debit, {std::to_string(debit.amount)}, soon());
    if (!moved) {
        return error_in(moved);
    }
    const auto written = connection.query(sql::lab_write_ledger, {debit.key, std::to_string(debit.amount)}, soon());
    if (!written) {
        return error_in(written);
    }
    return moved->integer(0, "balance").value();
}

Result<std::string> complete_debit(pg::Connection& connection, const Laboratory& laboratory, const Debit& debit,
                                   std::int64_t token, std::int64_t balance) {
    std::string result = fmt::format(R"({{"balance": {}}})", balance);  // as jsonb spells it
    const auto ended = store::complete(connection, {.name_space = laboratory.name_space, .key = debit.key}, token,
                                       fmt::format("lab_ledger:{}", debit.key), result, soon());
    if (!ended) {
        return error_in(ended);
    }
    if (ended->outcome != "completed") {
        return fail(Code::internal, fmt::format("{} could not be completed: {}", debit.key, ended->outcome));
    }
    return result;
}

Result<store::BeginAnswer> debit_once(pg::Connection& connection, const Laboratory& laboratory, const Debit& debit) {
    return in_laboratory(connection, laboratory, [&](pg::Connection& here) -> Result<store::BeginAnswer> {
        auto begun = begin_debit(here, laboratory, debit);
        if (!begun || begun->outcome != "started") {
            return begun;
        }
        const auto balance = move_money(here, debit);
        if (!balance) {
            return error_in(balance);
        }
        auto result = complete_debit(here, laboratory, debit, begun->token.value(), *balance);
        if (!result) {
            return error_in(result);
        }
        begun->result = std::move(*result);
        return begun;
    });
}

Result<std::string> debit_with_error(pg::Connection& connection, const Laboratory& laboratory, const Debit& debit) {
    bool done = false;  // all that comes before the error
    const auto ended = in_laboratory(connection, laboratory, [&](pg::Connection& here) -> Result<void> {
        const auto begun = begin_debit(here, laboratory, debit);
        if (!begun) {
            return error_in(begun);
        }
        if (begun->outcome != "started") {
            return fail(Code::internal, fmt::format("{} did not start: {}", debit.key, begun->outcome));
        }
        if (const auto balance = move_money(here, debit); !balance) {
            return error_in(balance);
        }
        done = true;
        if (const auto injected = here.query(sql::lab_inject_error, {}, soon()); !injected) {
            return error_in(injected);
        }
        return fail(Code::internal, "the injected error was not raised");
    });
    if (!done || ended.error().sqlstate.empty()) {
        return error_in(ended);
    }
    return ended.error().sqlstate;
}

Result<std::string> debit_and_vanish(pg::Connection connection, const Laboratory& laboratory, const Debit& debit) {
    if (auto begun = connection.begin(soon()); !begun) {
        return error_in(begun);
    }
    if (auto entered = enter(connection, laboratory); !entered) {
        return error_in(entered);
    }
    const auto started = begin_debit(connection, laboratory, debit);
    if (!started) {
        return error_in(started);
    }
    if (started->outcome != "started") {
        return fail(Code::internal, fmt::format("{} did not start: {}", debit.key, started->outcome));
    }
    const auto balance = move_money(connection, debit);
    if (!balance) {
        return error_in(balance);
    }
    auto result = complete_debit(connection, laboratory, debit, started->token.value(), *balance);
    if (!result) {
        return result;
    }
    if (auto sent = connection.send("COMMIT", {}); !sent) {
        return error_in(sent);
    }
    connection.close();
    return result;
}

Result<Refund> refund(pg::Connection& connection, const Laboratory& laboratory, const Debit& original) {
    return in_laboratory(connection, laboratory, [&](pg::Connection& here) -> Result<Refund> {
        const store::OperationName name{.name_space = laboratory.name_space, .key = original.key};
        auto begun = store::begin_compensation(here,
                                               {.operation = name,
                                                .operator_name = "settle-lab",
                                                .reason = "the laboratory undoes a debit",
                                                .lease = std::nullopt,
                                                .owner = "settle-lab"},
                                               soon());
        if (!begun) {
            return error_in(begun);
        }
        if (begun->outcome != "started") {
            return Refund{.answer = std::move(*begun)};
        }
        const auto paid = here.query(sql::lab_refund, {original.key, std::to_string(original.amount)}, soon());
        if (!paid) {
            return error_in(paid);
        }
        const store::OperationName undo{.name_space = name.name_space, .key = name.key + "~undo"};
        const auto ended =
            store::complete(here, undo, begun->token.value(), "lab_compensation:" + name.key, std::nullopt, soon());
        if (!ended) {
            return error_in(ended);
        }
        return Refund{.answer = std::move(*begun), .rows = paid->affected()};
    });
}

Result<void> make_resource(pg::Connection& connection, const Laboratory& laboratory, std::int64_t token, int value) {
    return in_laboratory(connection, laboratory, [&](pg::Connection& here) -> Result<void> {
        const auto number = std::to_string(token);
        if (auto passed = here.query(sql::lab_check_fence, {task, number, laboratory.name_space}, soon()); !passed) {
            return error_in(passed);
        }
        if (auto made = here.query(sql::lab_new_resource, {std::to_string(value), number}, soon()); !made) {
            return error_in(made);
        }
        return {};
    });
}

Result<int> lapse_lease(pg::Connection& connection, const store::ResourceName& name, std::int64_t token) {
    return pg::in_transaction(connection, soon(), [&](pg::Connection& here) -> Result<int> {
        if (auto owner = here.query(sql::become_owner, {}, soon()); !owner) {
            return error_in(owner);
        }
        const auto moved =
            here.query(sql::lab_lapse_lease, {name.name_space, name.resource, std::to_string(token)}, soon());
        if (!moved) {
            return error_in(moved);
        }
        return moved->affected();
    });
}

Result<ResourceWrite> write_resource(pg::Connection& connection, const Laboratory& laboratory, std::int64_t token,
                                     int value, bool check_first) {
    const auto number = std::to_string(token);
    auto written = in_laboratory(connection, laboratory, [&](pg::Connection& here) -> Result<ResourceWrite> {
        if (check_first) {
            const auto passed = here.query(sql::lab_check_fence, {task, number, laboratory.name_space}, soon());
            if (!passed) {
                return error_in(passed);
            }
        }
        const auto changed = here.query(sql::lab_write_resource, {std::to_string(value), number}, soon());
        if (!changed) {
            return error_in(changed);
        }
        return ResourceWrite{.rows = changed->affected()};
    });
    if (!written && written.error().code == Code::stale_token) {
        return ResourceWrite{.rows = 0, .stale = true};
    }
    return written;
}

Result<LabFacts> lab_facts(pg::Connection& connection, const Laboratory& laboratory) {
    return in_laboratory(connection, laboratory, [&](pg::Connection& here) -> Result<LabFacts> {
        const auto rows = here.query(sql::lab_facts, {}, soon());
        if (!rows) {
            return error_in(rows);
        }
        return LabFacts{.balance = rows->integer(0, "balance"),
                        .ledger_rows = rows->integer(0, "ledger_rows"),
                        .order_a_ledger = rows->integer(0, "order_a_ledger"),
                        .order_a_status = rows->text(0, "order_a_status"),
                        .order_b_operations = rows->integer(0, "order_b_operations"),
                        .order_b_ledger_rows = rows->integer(0, "order_b_ledger_rows"),
                        .value = rows->integer(0, "value"),
                        .compensation_rows = rows->integer(0, "compensation_rows")};
    });
}

}  // namespace settle::cli
