#include <gtest/gtest.h>

#include <cstdlib>
#include <future>
#include <stdexcept>
#include <string>

#include "pg/connection.hpp"

namespace settle::pg {
namespace {

using namespace std::chrono_literals;

Deadline soon() {
    return Deadline::in(30s);
}

class PgTransaction : public testing::Test {
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

    static std::string value(Connection& connection, const std::string& sql) {
        const auto rows = connection.query(sql, {}, soon());
        if (!rows) {
            return describe(rows.error());
        }
        return rows->text(0, "value").value_or("null");
    }

    std::string url_;
};

TEST_F(PgTransaction, BeginsAtReadCommittedWithALockTimeout) {
    Connection connection = connect("&options=-cdefault_transaction_isolation%3Dserializable");
    ASSERT_TRUE(connection.begin(soon()));
    EXPECT_EQ(value(connection, "select current_setting('lock_timeout') as value"), "5s");
    EXPECT_EQ(value(connection, "select current_setting('transaction_isolation') as value"), "read committed");
    ASSERT_TRUE(connection.commit(soon()));
    EXPECT_EQ(value(connection, "select current_setting('lock_timeout') as value"), "0");
}

TEST_F(PgTransaction, TellsACommitThatRolledBack) {
    Connection connection = connect();
    ASSERT_TRUE(connection.begin(soon()));
    EXPECT_FALSE(connection.query("select 1/0", {}, soon()));
    const auto committed = connection.commit(soon());
    ASSERT_FALSE(committed);
    EXPECT_EQ(committed.error().code, Code::internal);
    EXPECT_TRUE(connection.is_open());
    ASSERT_TRUE(connection.begin(soon()));
    EXPECT_TRUE(connection.commit(soon()));
}

TEST_F(PgTransaction, GivesBackWhatADeferredCheckRaisesAtCommit) {
    Connection connection = connect();
    ASSERT_TRUE(connection.script(
        "create temporary table once (i integer unique deferrable initially deferred); insert into once values (1)",
        soon()));
    ASSERT_TRUE(connection.begin(soon()));
    ASSERT_TRUE(connection.query("insert into once values (1)", {}, soon()));
    const auto committed = connection.commit(soon());
    ASSERT_FALSE(committed);
    EXPECT_EQ(committed.error().sqlstate, "23505");
}

TEST_F(PgTransaction, CommitsWhereTheBodyHasAValueAndRollsBackElsewhere) {
    Connection connection = connect();
    ASSERT_TRUE(connection.script("create temporary table kept (i integer)", soon()));
    const auto insert = [](Connection& inside) { return inside.query("insert into kept values (1)", {}, soon()); };
    ASSERT_TRUE(in_transaction(connection, soon(), insert));
    EXPECT_EQ(value(connection, "select count(*) as value from kept"), "1");

    const auto refused = in_transaction(connection, soon(), [&](Connection& inside) -> Result<int> {
        EXPECT_TRUE(insert(inside));
        return fail(Code::frozen, "no");
    });
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::frozen);
    EXPECT_EQ(value(connection, "select count(*) as value from kept"), "1");

    const auto throwing = [&](Connection& inside) -> Result<int> {
        EXPECT_TRUE(insert(inside));
        throw std::runtime_error{"a defect"};
    };
    EXPECT_THROW((void)in_transaction(connection, soon(), throwing), std::runtime_error);
    EXPECT_EQ(value(connection, "select count(*) as value from kept"), "1");
    EXPECT_TRUE(connection.is_open());
}

TEST_F(PgTransaction, KeepsTheStateOfALockTimeout) {
    Connection holder = connect();
    Connection waiter = connect();
    ASSERT_TRUE(holder.begin(soon()));
    ASSERT_TRUE(holder.query("select pg_advisory_xact_lock(8)", {}, soon()));
    ASSERT_TRUE(waiter.begin(soon()));
    ASSERT_TRUE(waiter.query("set local lock_timeout = '20ms'", {}, soon()));
    const auto waited = waiter.query("select pg_advisory_xact_lock(8)", {}, soon());
    ASSERT_FALSE(waited);
    EXPECT_EQ(waited.error().sqlstate, "55P03");
    waiter.rollback(soon());
    EXPECT_TRUE(waiter.is_open());
    holder.rollback(soon());
}

TEST_F(PgTransaction, RollbackOfABusyConnectionClosesIt) {
    Connection connection = connect();
    ASSERT_TRUE(connection.begin(soon()));
    ASSERT_TRUE(connection.send("select pg_sleep(60)", {}));  // the thing under test
    connection.rollback(soon());
    EXPECT_FALSE(connection.is_open());
}

// Makes commits wait for a standby that does not exist, for as long as it lives.
class MissingStandby {
public:
    explicit MissingStandby(Connection& admin) : admin_(admin) {
        set("alter system set synchronous_standby_names = 'gone'");
    }
    ~MissingStandby() { set("alter system reset synchronous_standby_names"); }
    MissingStandby(const MissingStandby&) = delete;
    MissingStandby& operator=(const MissingStandby&) = delete;

private:
    void set(const std::string& sql) {
        EXPECT_TRUE(admin_.query(sql, {}, soon()));
        EXPECT_TRUE(admin_.query("select pg_reload_conf()", {}, soon()));
    }
    Connection& admin_;
};

TEST_F(PgTransaction, TellsACommitThatMayNotHaveReachedTheStandby) {
    Connection admin = connect("&options=-csynchronous_commit%3Dlocal");
    Connection writer = connect();
    ASSERT_TRUE(admin.script("drop table if exists replicated; create table replicated (i integer)", soon()));
    const MissingStandby missing{admin};
    const std::string seen = "select coalesce(current_setting('synchronous_standby_names'), '') as value";
    for (const Deadline deadline = soon(); value(writer, seen) != "gone";) {
        ASSERT_FALSE(deadline.passed()) << "the setting never arrived";
    }
    const std::string pid = std::to_string(writer.backend_pid());
    const std::string waits =
        "select exists (select from pg_stat_activity where pid = " + pid + " and wait_event = 'SyncRep') as value";
    // A commit waits from when the checkpointer has read the setting, too; until then one goes through, and is no test.
    std::future<Result<void>> committing;
    int committed_before = -1;
    const auto is_done = [&] { return committing.wait_for(std::chrono::seconds{0}) == std::future_status::ready; };
    const Deadline deadline = soon();
    do {
        ASSERT_FALSE(deadline.passed()) << "the commit never waited for the standby";
        ASSERT_TRUE(writer.begin(soon()));
        ASSERT_TRUE(writer.query("insert into public.replicated values (1)", {}, soon()));
        ++committed_before;
        committing = std::async(std::launch::async, [&] { return writer.commit(soon()); });
        while (!is_done() && value(admin, waits) != "t") {
        }
    } while (is_done());
    ASSERT_TRUE(admin.query("select pg_cancel_backend(" + pid + ")", {}, soon()));
    const auto committed = committing.get();
    ASSERT_FALSE(committed);
    EXPECT_EQ(committed.error().code, Code::outcome_unknown);
    EXPECT_EQ(value(admin, "select count(*) as value from replicated"), std::to_string(committed_before + 1));
    EXPECT_TRUE(writer.is_open());
}

}  // namespace
}  // namespace settle::pg
