#include "base/utf8.hpp"

#include "base/text.hpp"

namespace settle {
namespace {

// The bytes that may follow a lead byte: narrower for the second one where overlong forms, surrogates or values
// beyond U+10FFFF would otherwise pass.
struct Lead {
    std::size_t bytes;
    unsigned char second_min;
    unsigned char second_max;
};

Lead lead_of(unsigned char byte) noexcept {
    if (byte >= 0xC2 && byte <= 0xDF) {
        return {2, 0x80, 0xBF};
    }
    if (byte >= 0xE0 && byte <= 0xEF) {
        const unsigned char low = byte == 0xE0 ? 0xA0 : 0x80;
        const unsigned char high = byte == 0xED ? 0x9F : 0xBF;
        return {3, low, high};
    }
    if (byte >= 0xF0 && byte <= 0xF4) {
        const unsigned char low = byte == 0xF0 ? 0x90 : 0x80;
        const unsigned char high = byte == 0xF4 ? 0x8F : 0xBF;
        return {4, low, high};
    }
    return {0, 0, 0};
}

}  // namespace

Utf8Character utf8_character(std::string_view bytes, std::size_t at) noexcept {
    const auto first = static_cast<unsigned char>(bytes[at]);
    if (first < 0x80) {
        return {first, 1};
    }
    const Lead lead = lead_of(first);
    if (lead.bytes == 0 || bytes.size() - at < lead.bytes) {
        return {};
    }
    const auto second = static_cast<unsigned char>(bytes[at + 1]);
    if (second < lead.second_min || second > lead.second_max) {
        return {};
    }
    char32_t value = first & (0x7FU >> lead.bytes);
    for (std::size_t i = 1; i < lead.bytes; ++i) {
        const auto next = static_cast<unsigned char>(bytes[at + i]);
        if ((next & 0xC0U) != 0x80U) {
            return {};
        }
        value = (value << 6U) | (next & 0x3FU);
    }
    return {value, lead.bytes};
}

void append_utf8(std::string& out, char32_t value) {
    const auto tail = [&](unsigned shift) { out += static_cast<char>(0x80U | ((value >> shift) & 0x3FU)); };
    if (value < 0x80) {
        out += static_cast<char>(value);
    } else if (value < 0x800) {
        out += static_cast<char>(0xC0U | (value >> 6U));
        tail(0);
    } else if (value < 0x10000) {
        out += static_cast<char>(0xE0U | (value >> 12U));
        tail(6);
        tail(0);
    } else {
        out += static_cast<char>(0xF0U | (value >> 18U));
        tail(12);
        tail(6);
        tail(0);
    }
}

bool is_utf8(std::string_view bytes) noexcept {
    for (std::size_t at = 0; at < bytes.size();) {
        const Utf8Character character = utf8_character(bytes, at);
        if (character.bytes == 0 || character.value == 0) {
            return false;
        }
        at += character.bytes;
    }
    return true;
}

}  // namespace settle
