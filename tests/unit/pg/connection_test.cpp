#include "pg/connection.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <future>
#include <stdexcept>
#include <string>

namespace settle::pg {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;

// Far longer than anything here takes: a test that meets it has found a defect.
Deadline soon() {
    return Deadline::in(30s);
}

class PgConnection : public testing::Test {
protected:
    void SetUp() override {
        const char* url = std::getenv("SETTLE_TEST_URL");
        if (url == nullptr) {
            GTEST_SKIP() << "SETTLE_TEST_URL is not set: run it by tests/run.py unit";
        }
        url_ = url;
    }

    [[nodiscard]] Connection connect(const std::string& options = "") const {
        auto opened = Connection::open(url_ + options, soon());
        if (!opened) {
            throw std::runtime_error{describe(opened.error())};
        }
        return *std::move(opened);
    }

    // Asks again until the answer is true.
    static void wait_until(Connection& watcher, const std::string& sql, const std::vector<Param>& params) {
        for (const Deadline deadline = soon(); !deadline.passed();) {
            const auto rows = watcher.query(sql, params, soon());
            ASSERT_TRUE(rows) << describe(rows.error());
            if (rows->boolean(0, "yes")) {
                return;
            }
        }
        FAIL() << "never true: " << sql;
    }

    std::string url_;
};

TEST_F(PgConnection, ReadsRowsByName) {
    Connection connection = connect();
    const auto rows = connection.query(R"(select $1::text as "Text", null::text as nothing, $2::bigint as number,
                                                 true as yes, false as no, null::boolean as neither)",
                                       {"Grüße"s, "-9007199254740993"s}, soon());
    ASSERT_TRUE(rows) << describe(rows.error());
    EXPECT_EQ(rows->count(), 1);
    EXPECT_EQ(rows->text(0, "Text"), "Grüße");
    EXPECT_EQ(rows->text(0, "nothing"), std::nullopt);
    EXPECT_EQ(rows->integer(0, "number"), -9007199254740993);
    EXPECT_EQ(rows->integer(0, "nothing"), std::nullopt);
    EXPECT_TRUE(rows->boolean(0, "yes"));
    EXPECT_FALSE(rows->boolean(0, "no"));
    EXPECT_FALSE(rows->boolean(0, "neither"));
    EXPECT_EQ(rows->require(0, "Text"), "Grüße");
    EXPECT_THROW((void)rows->require(0, "nothing"), std::logic_error);
    EXPECT_THROW((void)rows->text(0, "text"), std::logic_error);  // names are exact
    EXPECT_THROW((void)rows->text(1, "Text"), std::logic_error);
    EXPECT_THROW((void)rows->integer(0, "Text"), std::logic_error);
}

TEST_F(PgConnection, SendsNullAndRefusesTheZeroCharacter) {
    Connection connection = connect();
    const auto null = connection.query("select $1::text is null as yes", {std::nullopt}, soon());
    ASSERT_TRUE(null) << describe(null.error());
    EXPECT_TRUE(null->boolean(0, "yes"));
    const auto refused = connection.query("select $1::text", {"a\0b"s}, soon());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::invalid_argument);
    EXPECT_TRUE(connection.is_open());
}

TEST_F(PgConnection, CountsWhatAStatementChanged) {
    Connection connection = connect();
    ASSERT_TRUE(connection.script("create temporary table t (i integer); insert into t values (1), (2)", soon()));
    const auto changed = connection.query("update t set i = i + 1", {}, soon());
    ASSERT_TRUE(changed) << describe(changed.error());
    EXPECT_EQ(changed->affected(), 2);
    EXPECT_EQ(changed->command_tag(), "UPDATE 2");
}

TEST_F(PgConnection, CallsItselfSettleUnlessToldOtherwise) {
    Connection connection = connect();
    const auto rows = connection.query(
        "select current_setting('application_name') as name, current_setting('client_encoding') as encoding", {},
        soon());
    ASSERT_TRUE(rows) << describe(rows.error());
    EXPECT_EQ(rows->text(0, "name"), "settle");
    EXPECT_EQ(rows->text(0, "encoding"), "UTF8");
    Connection named = connect("&application_name=batch&client_encoding=LATIN1");
    const auto other = named.query(
        "select current_setting('application_name') as name, current_setting('client_encoding') as encoding", {},
        soon());
    ASSERT_TRUE(other) << describe(other.error());
    EXPECT_EQ(other->text(0, "name"), "batch");
    EXPECT_EQ(other->text(0, "encoding"), "UTF8");
}

TEST_F(PgConnection, CarriesMoreThanTheSocketTakesAtOnce) {
    Connection connection = connect();
    const std::string large(8U << 20U, 'x');
    const auto rows = connection.query("select $1::text as text", {large}, soon());
    ASSERT_TRUE(rows) << describe(rows.error());
    EXPECT_EQ(rows->text(0, "text"), large);
}

struct Raised {
    std::string sqlstate;
    std::string message;
    Code code;
    std::string described;
};

TEST_F(PgConnection, GivesWhatTheDatabaseRaisesItsCode) {
    Connection connection = connect();
    const std::vector<Raised> cases{
        {"ST001", "IDEMPOTENCY_PARAMETER_CONFLICT: key k", Code::parameter_conflict,
         "IDEMPOTENCY_PARAMETER_CONFLICT: key k"},
        {"ST007", "INVALID_ARGUMENT: key: too long", Code::invalid_argument, "INVALID_ARGUMENT: key: too long"},
        {"ST012", "OPERATION_NOT_ENDED: x", Code::operation_not_ended, "OPERATION_NOT_ENDED: x"},
        {"ST005", "something else", Code::stale_token, "STALE_TOKEN: something else"},
        {"42501", "permission denied for function f", Code::permission_denied,
         "PERMISSION_DENIED: permission denied for function f"},
        {"22P02", "invalid input", Code::invalid_argument, "INVALID_ARGUMENT: invalid input"},
        {"40001", "could not serialize", Code::internal, "INTERNAL: could not serialize"},
        {"P0001", "insufficient funds", Code::internal, "INTERNAL: insufficient funds"},
    };
    for (const Raised& wanted : cases) {
        const auto rows = connection.script("do $$ begin raise exception using errcode = '" + wanted.sqlstate +
                                                "', message = '" + wanted.message + "', detail = '{\"a\": 1}'; end $$",
                                            soon());
        ASSERT_FALSE(rows) << wanted.sqlstate;
        EXPECT_EQ(rows.error().code, wanted.code) << wanted.sqlstate;
        EXPECT_EQ(rows.error().sqlstate, wanted.sqlstate);
        EXPECT_EQ(rows.error().detail, "{\"a\": 1}");
        EXPECT_EQ(describe(rows.error()), wanted.described);
        EXPECT_TRUE(connection.is_open());
    }
}

TEST_F(PgConnection, TellsAMissingSchemaFromAMistake) {
    Connection connection = connect();
    for (const std::string sql : {"select settle.no_such_function(1)", "select * from settle.operations",
                                  "select * from settle_data.operation", "select null::settle.no_such_type"}) {
        const auto rows = connection.query(sql, {}, soon());
        ASSERT_FALSE(rows) << sql;
        EXPECT_EQ(rows.error().code, Code::unsupported_schema) << sql;
        EXPECT_TRUE(rows.error().message.ends_with("; run settle migrate on this database")) << rows.error().message;
    }
    for (const std::string sql :
         {"select * from unsettle.d", "select no_such_function()", "select * from bank.settle"}) {
        const auto rows = connection.query(sql, {}, soon());
        ASSERT_FALSE(rows) << sql;
        EXPECT_EQ(rows.error().code, Code::internal) << sql;
    }
}

TEST_F(PgConnection, GivesInvalidJsonAndBytesAsArguments) {
    Connection connection = connect();
    for (const std::string text : {"{", "\"\\u0000\"", "\xFF"}) {
        const auto rows = connection.query("select $1::jsonb", {text}, soon());
        ASSERT_FALSE(rows);
        EXPECT_EQ(rows.error().code, Code::invalid_argument) << rows.error().sqlstate;
    }
}

TEST_F(PgConnection, StopsAtTheDeadlineAndCloses) {
    Connection connection = connect();
    const auto started = Clock::now();
    const auto rows = connection.query("select pg_sleep(60)", {}, Deadline::in(50ms));  // the thing under test
    EXPECT_LT(Clock::now() - started, 20s);
    ASSERT_FALSE(rows);
    EXPECT_EQ(rows.error().code, Code::database_unreachable);
    EXPECT_FALSE(connection.is_open());
    const auto after = connection.query("select 1", {}, soon());
    ASSERT_FALSE(after);
    EXPECT_EQ(after.error().code, Code::database_unreachable);
}

TEST_F(PgConnection, NoticesThatItsServerProcessWasEnded) {
    Connection victim = connect();
    Connection other = connect();
    ASSERT_TRUE(victim.send("select pg_sleep(60)", {}));  // the thing under test
    wait_until(other, "select exists (select from pg_stat_activity where pid = $1 and state = 'active') as yes",
               {std::to_string(victim.backend_pid())});
    const auto ended =
        other.query("select pg_terminate_backend($1) as yes", {std::to_string(victim.backend_pid())}, soon());
    ASSERT_TRUE(ended) << describe(ended.error());
    const auto rows = victim.receive(soon());
    ASSERT_FALSE(rows);
    EXPECT_EQ(rows.error().code, Code::database_unreachable);
    EXPECT_EQ(rows.error().sqlstate, "57P01");
    EXPECT_FALSE(victim.is_open());
}

TEST_F(PgConnection, SendsWithoutWaiting) {
    Connection holder = connect();
    Connection waiter = connect();
    Connection watcher = connect();
    ASSERT_TRUE(holder.begin(soon()));
    ASSERT_TRUE(holder.query("select pg_advisory_xact_lock(7)", {}, soon()));
    ASSERT_TRUE(waiter.send("select pg_advisory_xact_lock(7)", {}));
    wait_until(watcher, "select exists (select from pg_locks where pid = $1 and not granted) as yes",
               {std::to_string(waiter.backend_pid())});
    ASSERT_TRUE(holder.commit(soon()));
    EXPECT_TRUE(waiter.receive(soon()));
}

TEST_F(PgConnection, RefusesASecondStatementBeforeTheFirstWasReceived) {
    Connection connection = connect();
    ASSERT_TRUE(connection.send("select 1 as one", {}));
    EXPECT_FALSE(connection.send("select 2", {}));
    const auto rows = connection.receive(soon());
    ASSERT_TRUE(rows) << describe(rows.error());
    EXPECT_EQ(rows->integer(0, "one"), 1);
}

}  // namespace
}  // namespace settle::pg
