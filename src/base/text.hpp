// Text as people type it and terminals show it.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace settle {

// True for well-formed UTF-8 without U+0000 (RFC 3629: no surrogates, no overlong forms, at most U+10FFFF).
bool is_utf8(std::string_view bytes) noexcept;

// A whole number with a unit: ms, s, m, h, d (as in "30s"). `field` names the option in the error.
// Limits: 1 ms to 10 years.
Result<std::chrono::milliseconds> parse_duration(std::string_view field, std::string_view text);

// The shortest exact form: "30s", "1500ms", "2h".
std::string format_duration(std::chrono::milliseconds time);

// The same text fit for one line of a terminal: control characters, bidirectional marks and invalid bytes become
// visible escapes, so that hostile text can neither move the cursor nor forge a second line.
std::string printable(std::string_view text);

std::string base64_encode(std::string_view bytes);
Result<std::string> base64_decode(std::string_view text);

// 128 random bits in hexadecimal, from the kernel: an owner's id is new with each start.
std::string random_id();

}  // namespace settle
