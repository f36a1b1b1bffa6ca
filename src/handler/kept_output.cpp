#include "handler/kept_output.hpp"

#include <fmt/format.h>

namespace settle::handler {
namespace {

constexpr std::size_t longest_utf8_tail = 3;  // continuation bytes of one character

bool is_continuation(char byte) noexcept {
    return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

}  // namespace

void KeptOutput::append(std::string_view bytes) {
    total_bytes_ += bytes.size();
    if (bytes.size() > limit_bytes_) {
        bytes.remove_prefix(bytes.size() - limit_bytes_);
    }
    tail_ += bytes;
    // Cut rarely: each cut moves the whole tail.
    if (tail_.size() > 2 * limit_bytes_) {
        tail_.erase(0, tail_.size() - limit_bytes_);
    }
}

std::string KeptOutput::text() const {
    if (total_bytes_ <= limit_bytes_) {
        return tail_;
    }
    // The mark is longest when it names every byte, so its length is safe to subtract before the cut is known.
    const auto mark = [](std::uint64_t missing) {
        return fmt::format("[settle: {} earlier bytes not kept]\n", missing);
    };
    const std::size_t room = limit_bytes_ - std::min(limit_bytes_, mark(total_bytes_).size());
    std::string_view kept{tail_};
    kept.remove_prefix(kept.size() - std::min(kept.size(), room));
    std::size_t skipped = 0;
    while (skipped < longest_utf8_tail && skipped < kept.size() && is_continuation(kept[skipped])) {
        ++skipped;
    }
    if (skipped < kept.size() && !is_continuation(kept[skipped])) {
        kept.remove_prefix(skipped);
    }
    return mark(total_bytes_ - kept.size()).append(kept);
}

}  // namespace settle::handler
