// Connections that cannot be made: what is said, how soon, and that no password is in it.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "pg/connection.hpp"
#include "pg/url.hpp"

namespace settle::pg {
namespace {

using namespace std::chrono_literals;

Error refused(const std::string& url, Deadline deadline = Deadline::in(30s)) {
    const auto opened = Connection::open(url, deadline);
    EXPECT_FALSE(opened) << url;
    return opened ? Error{} : opened.error();
}

// A listener on the loopback that accepts nobody: the kernel completes the handshake, and then nothing comes.
class SilentServer {
public:
    SilentServer() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof(address);
        EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), size), 0);
        EXPECT_EQ(listen(socket_, 4), 0);
        EXPECT_EQ(getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size), 0);
        port_ = ntohs(address.sin_port);
    }
    ~SilentServer() { close_now(); }
    SilentServer(const SilentServer&) = delete;
    SilentServer& operator=(const SilentServer&) = delete;

    void close_now() {
        if (socket_ >= 0) {
            ::close(std::exchange(socket_, -1));
        }
    }
    [[nodiscard]] int port() const { return port_; }

private:
    int socket_;
    int port_ = 0;
};

TEST(PgOpen, GivesUpAtTheDeadline) {
    const SilentServer server;
    const auto started = Clock::now();
    const Error error = refused("postgresql://u@127.0.0.1:" + std::to_string(server.port()) + "/d", Deadline::in(50ms));
    EXPECT_LT(Clock::now() - started, 20s);
    EXPECT_EQ(error.code, Code::database_unreachable);
}

TEST(PgOpen, SaysThatNobodyListens) {
    SilentServer server;
    server.close_now();
    const Error error = refused("postgresql://u:hunter2@127.0.0.1:" + std::to_string(server.port()) + "/d");
    EXPECT_EQ(error.code, Code::database_unreachable);
    EXPECT_TRUE(error.message.starts_with("cannot connect to the database: ")) << error.message;
    EXPECT_EQ(error.message.find('\n'), std::string::npos);
    EXPECT_EQ(error.message.find("hunter2"), std::string::npos);
}

TEST(PgOpen, SaysThatASocketIsMissing) {
    const Error error = refused("postgresql:///d?host=/nonexistent&user=u&password=hunter2");
    EXPECT_EQ(error.code, Code::database_unreachable);
    EXPECT_NE(error.message.find("/nonexistent"), std::string::npos) << error.message;
}

TEST(PgOpen, NeverRepeatsAPassword) {
    const std::vector<std::string> urls{
        "postgresql://u:hunter2@127.0.0.1:1/d",
        "postgres://u:hunter2@127.0.0.1:1/d",
        "postgresql://u:a@hunter2@127.0.0.1:1/d",
        "postgresql://u:a/hunter2@127.0.0.1:1/d",
        "postgresql://u:a:hunter2@127.0.0.1:1/d",
        "postgresql://u:hunter2%zz@127.0.0.1:1/d",
        "postgresql://u:hunter2@127.0.0.1:port/d",
        "postgresql://u:hunter2@127.0.0.1:99999/d",
        "postgresql://u:hunter2@[::1/d",
        "postgresql://u:hunter2@hunter2.invalid/d",
        "postgresql://127.0.0.1:1/d?password=hunter2",
        "postgresql://127.0.0.1:1/d?password=hunter2&nonsense=hunter2",
        "host=127.0.0.1 port=1 user=u password=hunter2",
        "host=127.0.0.1 port=1 password=a hunter2",
        "host=127.0.0.1 port=1 password='hunter2",
        "hunter2",
        "https://u:hunter2@example.invalid/d",
    };
    for (const std::string& url : urls) {
        const Error error = refused(url);
        EXPECT_EQ(describe(error).find("hunter2"), std::string::npos) << url << " → " << describe(error);
    }
}

TEST(PgOpen, FindsThePasswordsOfAUrl) {
    EXPECT_EQ(secrets_of("postgresql://u@h/d"), std::vector<std::string>{});
    EXPECT_EQ(secrets_of("postgresql://u:p%40q@h/d"), (std::vector<std::string>{"p%40q", "p@q"}));
    EXPECT_EQ(secrets_of("host=h password=p"), std::vector<std::string>{"p"});
    EXPECT_EQ(secrets_of("postgresql://u:p@q@h/d").error().code, Code::invalid_argument);
}

TEST(PgOpen, RefusesADatabaseThatIsNotUtf8) {
    const char* url = std::getenv("SETTLE_TEST_URL");
    if (url == nullptr) {
        GTEST_SKIP() << "SETTLE_TEST_URL is not set: run it by tests/run.py unit";
    }
    auto admin = Connection::open(url, Deadline::in(30s));
    ASSERT_TRUE(admin) << describe(admin.error());
    ASSERT_TRUE(admin->query("drop database if exists settle_latin1", {}, Deadline::in(30s)));
    ASSERT_TRUE(admin->query("create database settle_latin1 encoding 'LATIN1' locale 'C' template template0", {},
                             Deadline::in(60s)));
    std::string other = url;
    other.replace(other.find("/postgres?"), 10, "/settle_latin1?");
    const Error error = refused(other);
    EXPECT_EQ(error.code, Code::unsupported_schema);
    EXPECT_EQ(error.message, "the database's encoding is LATIN1; create one with encoding UTF8");
    EXPECT_TRUE(admin->query("drop database settle_latin1", {}, Deadline::in(30s)));
}

}  // namespace
}  // namespace settle::pg
