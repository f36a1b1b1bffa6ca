// An owned file descriptor, and pipes made of them.
#pragma once

#include <utility>

#include "base/error.hpp"

namespace settle::handler {

class Descriptor {
public:
    Descriptor() = default;
    explicit Descriptor(int number) : number_(number) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        if (this != &other) {
            close();
            number_ = std::exchange(other.number_, -1);
        }
        return *this;
    }
    ~Descriptor() { close(); }

    [[nodiscard]] int number() const noexcept { return number_; }
    [[nodiscard]] bool is_open() const noexcept { return number_ >= 0; }
    void close() noexcept;

private:
    int number_ = -1;
};

struct Pipe {
    Descriptor read_end;
    Descriptor write_end;
};

// Closed on exec, and above the standard streams even where one of these was closed at the start.
Result<Pipe> make_pipe();

void set_non_blocking(const Descriptor& descriptor) noexcept;

}  // namespace settle::handler
