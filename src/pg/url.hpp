// Connection strings as people give them, and the passwords in them.
#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"

namespace settle::pg {

// The passwords that `url` (a URL or libpq's `name=value` form) holds. A text that cannot be read for sure is refused,
// without repeating it: libpq would take part of a password for a host name, and say so in its errors.
Result<std::vector<std::string>> secrets_of(const std::string& url);

}  // namespace settle::pg
