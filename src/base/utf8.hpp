// Reading UTF-8 one character at a time, by the table of RFC 3629.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace settle {

struct Utf8Character {
    char32_t value = 0;
    std::size_t bytes = 0;  // 0: there is no well-formed character here
};

// The character that starts at `bytes[at]`; `at` must be inside.
Utf8Character utf8_character(std::string_view bytes, std::size_t at) noexcept;

// Appends `value`, a Unicode scalar value, to `out`.
void append_utf8(std::string& out, char32_t value);

}  // namespace settle
