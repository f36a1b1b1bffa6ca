// The children of this process, as the kernel lists them.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>

namespace settle::handler {

struct Children {
    std::array<pid_t, 256> pids{};  // a longer list is read again once these are gone
    std::size_t count = 0;
};

// Allocates nothing. A child that ends while the list is read may hide another for once: read again before believing
// in an empty list. Empty where the kernel offers no list.
Children list_children() noexcept;

}  // namespace settle::handler
