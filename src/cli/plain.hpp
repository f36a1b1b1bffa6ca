// The plain form of answers: for a person at a terminal, whatever the text of others holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/context.hpp"

namespace settle::cli {

// One word of a POSIX shell; $'…' where the text holds what no terminal should be shown.
std::string shell_word(std::string_view text);

// "settle [--namespace N] COMMAND KEY OPTIONS", fit to be pasted into a shell; the database is the reader's own.
std::string command_line(const Context& context, std::string_view command, std::string_view key,
                         std::string_view options = {});

// "in 25s", "3m 20s ago".
std::string about(std::int64_t seconds);

// printable, cut at a character after some `max_bytes`, saying how long the whole is.
std::string excerpt(std::string_view text, std::size_t max_bytes);

// Rows of cells in aligned columns, a line each, `indent` spaces before it; cells are printable already.
std::string table(const std::vector<std::vector<std::string>>& rows, std::size_t indent = 0);

// A status as it is said after "is".
std::string in_words(std::string_view status);

// JSON documents as one array.
std::string json_array(const std::vector<std::string>& documents);

// The same document, with what could trick a terminal written as escapes of JSON.
std::string safe_json(std::string_view document);

}  // namespace settle::cli
