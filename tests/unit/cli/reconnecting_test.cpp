#include "cli/reconnecting.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits.hpp"

namespace settle::cli {
namespace {

using namespace std::chrono_literals;

// A renewal that has to connect first must still leave time for another one.
TEST(Reconnecting, GivesUpAtItsCallersDeadline) {
    const int silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    ASSERT_EQ(bind(silent, reinterpret_cast<sockaddr*>(&address), size), 0);
    ASSERT_EQ(listen(silent, 1), 0);  // the kernel completes the handshake, and then nothing comes
    ASSERT_EQ(getsockname(silent, reinterpret_cast<sockaddr*>(&address), &size), 0);

    Context context;
    context.db = fmt::format("postgresql://u@127.0.0.1:{}/d", ntohs(address.sin_port));
    Reconnecting database{context};
    const auto started = Clock::now();
    const auto connection = database.get(Deadline::in(50ms));
    EXPECT_LT(Clock::now() - started, limits::connect_wait / 2);
    ASSERT_FALSE(connection);
    EXPECT_EQ(connection.error().code, Code::database_unreachable);
    close(silent);
}

}  // namespace
}  // namespace settle::cli
