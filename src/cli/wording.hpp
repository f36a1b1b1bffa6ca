// Pieces of the lines and documents that commands write.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cli/context.hpp"

namespace settle::cli {

// "settle: LINE" on standard error, on one line whatever it holds.
void warn(std::string_view line);

// All bytes to a descriptor; a receiver that is gone is not told of.
void write_bytes(int descriptor, std::string_view bytes);

// A timestamp of the database in RFC 3339: "2026-03-01 10:00:00.5+00" is "2026-03-01T10:00:00.5Z".
std::string rfc3339(std::string_view timestamp);
std::string rfc3339(std::chrono::system_clock::time_point time);

// The key or resource as the outside sees it: with the namespace before it where that is not the default one.
std::string outside_name(const Context& context, std::string_view name);

// Members of a document: `null` where there is nothing.
std::string json_or_null(const std::optional<std::string>& text);
std::string json_or_null(std::optional<std::int64_t> number);

// A holder's name that no other process has: host:pid:random.
std::string unique_holder();

}  // namespace settle::cli
