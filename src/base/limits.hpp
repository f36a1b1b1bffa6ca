// Every limit of the program, each with its reason. The SQL side of a limit stands in sql/schema and sql/api;
// a test holds the two together.
#pragma once

#include <chrono>
#include <cstddef>

namespace settle::limits {

using namespace std::chrono_literals;

inline constexpr std::size_t key_bytes = 255;            // as callers give it; fits an index entry with room to spare
inline constexpr std::size_t stored_key_bytes = 511;     // with `~undo` and step names that Settle adds
inline constexpr std::size_t name_bytes = 63;            // namespace, kind, queue: PostgreSQL's own name length
inline constexpr std::size_t request_bytes = 1U << 20U;  // 1 MiB: a record, not a file store
inline constexpr std::size_t result_bytes = 1U << 20U;   // as the request
inline constexpr std::size_t kept_text_bytes = 64U << 10U;  // failure text and each output stream of a command
inline constexpr int json_depth = 32;                       // deeper is an attack or a mistake
inline constexpr int number_digits = 400;                   // written out as a decimal
inline constexpr int number_exponent = 308;                 // what a double can still hold: 1e309 is refused
inline constexpr auto duration_min = 1ms;
inline constexpr auto duration_max = 10 * 365 * 24h;  // ten years
inline constexpr auto lock_wait = 5s;                 // how long a call waits for another's uncommitted key
inline constexpr auto connect_wait = 10s;             // reaching the database
inline constexpr auto statement_wait = 60s;           // one call of a function
inline constexpr auto server_start_wait = 90s;        // the private server, crash recovery included
inline constexpr auto record_wait = 120s;             // how long `exec` goes on trying to write down an ended command

}  // namespace settle::limits
