// The check of JSON as it came, before anything has parsed it away.
#pragma once

#include <string_view>

#include "base/error.hpp"

namespace settle {

// Refuses what would make two different documents look alike, naming the place as a JSON Pointer: duplicate member
// names, U+0000, lone surrogates, numbers of 1e309 and beyond or of more than 400 digits written out, nesting deeper
// than 32, more than `limits::request_bytes`, invalid UTF-8, and text that is no JSON. Source: RFC 8259 with the
// restrictions of RFC 7493. The text is then passed on unparsed; numbers are never converted.
Result<void> check_json_text(std::string_view field, std::string_view text);

}  // namespace settle
