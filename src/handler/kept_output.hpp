// The end of a stream that may be of any length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/limits.hpp"

namespace settle::handler {

// Keeps the last bytes of what is appended, in bounded memory.
class KeptOutput {
public:
    explicit KeptOutput(std::size_t limit_bytes = limits::kept_text_bytes) : limit_bytes_(limit_bytes) {}

    void append(std::string_view bytes);

    // At most `limit_bytes`. Where the beginning is missing, the first line is `[settle: N earlier bytes not kept]`,
    // and the cut tears no UTF-8 character apart.
    [[nodiscard]] std::string text() const;

private:
    std::size_t limit_bytes_;
    std::uint64_t total_bytes_ = 0;
    std::string tail_;
};

}  // namespace settle::handler
