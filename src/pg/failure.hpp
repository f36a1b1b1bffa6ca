// What the database's own errors mean to Settle.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

struct pg_conn;
struct pg_result;

namespace settle::pg {

// The error of a result that is no success.
Error error_of(const pg_result* result);

// The error of a connection that could not be made, or broke; its text holds none of `secrets`.
Error unreachable(std::string_view doing, const pg_conn* connection, const std::vector<std::string>& secrets);

// Text of the server or of libpq on one line.
std::string one_line(std::string_view text);

}  // namespace settle::pg
