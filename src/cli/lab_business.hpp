// The business that the laboratory does with Settle, as a user's program would do it: each function is one transaction.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "pg/connection.hpp"
#include "store/lease.hpp"
#include "store/operation.hpp"

namespace settle::cli {

struct Laboratory {
    std::string schema;
    std::string name_space;  // of its operations and leases
};

struct Debit {
    std::string key;
    std::int64_t amount = 0;
};

// What a call came to, in the words of the laboratory: APPLIED (it did the work), REPLAY (it got the stored answer),
// else the outcome in capitals.
std::string claim_word(const std::string& outcome);

// From here to the transaction's end the laboratory's names mean its schema. The backend that serves the transaction.
Result<std::int64_t> enter(pg::Connection& connection, const Laboratory& laboratory);

// The debit's operation begun, inside the caller's transaction.
Result<store::BeginAnswer> begin_debit(pg::Connection& connection, const Laboratory& laboratory, const Debit& debit);
// The same, sent and not waited for: the answer's row comes by `receive`.
Result<void> send_debit(pg::Connection& connection, const Laboratory& laboratory, const Debit& debit);
// The code of an answer's failure; empty where it has none.
std::string failure_code(const store::BeginAnswer& answer);
// The money moved and written to the ledger, inside the caller's transaction. The new balance.
Result<std::int64_t> move_money(pg::Connection& connection, const Debit& debit);
// Ends what began under `token`, inside the caller's transaction. The result that was stored.
Result<std::string> complete_debit(pg::Connection& connection, const Laboratory& laboratory, const Debit& debit,
                                   std::int64_t token, std::int64_t balance);

// All of it, in one transaction.
Result<store::BeginAnswer> debit_once(pg::Connection& connection, const Laboratory& laboratory, const Debit& debit);

// Begins, debits and writes the ledger, and meets an error then. The SQLSTATE of that error; nothing where there was
// none. The transaction is rolled back in any case.
Result<std::string> debit_with_error(pg::Connection& connection, const Laboratory& laboratory, const Debit& debit);

// Debits and sends COMMIT, and is gone before the answer. The result that it would have stored.
Result<std::string> debit_and_vanish(pg::Connection connection, const Laboratory& laboratory, const Debit& debit);

struct Refund {
    store::BeginAnswer answer;
    int rows = 0;  // of accounts
};
// Undoes the debit: the money moves with the row of lab_compensation or not at all.
Result<Refund> refund(pg::Connection& connection, const Laboratory& laboratory, const Debit& original);

// The guarded resource.
Result<void> make_resource(pg::Connection& connection, const Laboratory& laboratory, std::int64_t token, int value);
// Lets the lease of this token lapse, by its deadline alone.
Result<int> lapse_lease(pg::Connection& connection, const store::ResourceName& task, std::int64_t token);

struct ResourceWrite {
    int rows = 0;
    bool stale = false;  // check_fence said so
};
// The write of a holder under `token`. Without `check_first` only the resource's own fence stops it.
Result<ResourceWrite> write_resource(pg::Connection& connection, const Laboratory& laboratory, std::int64_t token,
                                     int value, bool check_first);

struct LabFacts {
    std::optional<std::int64_t> balance;
    std::optional<std::int64_t> ledger_rows;
    std::optional<std::int64_t> order_a_ledger;
    std::optional<std::string> order_a_status;
    std::optional<std::int64_t> order_b_operations;
    std::optional<std::int64_t> order_b_ledger_rows;
    std::optional<std::int64_t> value;
    std::optional<std::int64_t> compensation_rows;
};
// The figures as they stand.
Result<LabFacts> lab_facts(pg::Connection& connection, const Laboratory& laboratory);

}  // namespace settle::cli
