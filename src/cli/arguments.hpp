// What is done with the arguments before the parser sees them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace settle::cli {

using Arguments = std::vector<std::string>;

// Takes what follows `--` out of the arguments of `exec` and `lease hold`: that is a command's own, untouched, and may
// be any bytes. Elsewhere `--` is left to the parser, for keys that begin with a hyphen.
Arguments split_command(Arguments& arguments);

// "--name=" as two words, "--name" and "": the parser would take the next word for the value.
Arguments with_empty_values(const Arguments& arguments);

// True where `--json` stands among the arguments, so that an error in these is a document, too.
bool asks_for_json(const Arguments& arguments);

// INVALID_ARGUMENT naming the first option or argument that is not UTF-8.
std::optional<Error> check_utf8(const Arguments& arguments);

}  // namespace settle::cli
