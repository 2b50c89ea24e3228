#include "cli/tasks/detail/job_tasks.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "model/base/bytes.h"
#include "tests/support/real/channel_ranks.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::cli {
namespace {

using model::Result;

constexpr std::size_t many = 200;

sim::TaskSet squares(std::atomic<int>* calls = nullptr) {
  return {.key = "squares", .count = many, .run = [calls](std::size_t task) -> Result<std::string> {
            if (calls != nullptr) ++*calls;
            return std::to_string(task * task);
          }};
}

std::vector<std::string> all_squares() { return sim::local_tasks().run(squares()).value(); }

const real::ChannelOptions patient{.outlives_ranks = true};

// Runs the set on every rank and returns results or error of each, as bytes.
std::vector<std::string> spread(std::int32_t ranks, const std::function<sim::TaskSet(std::int32_t)>& set) {
  std::vector<std::int32_t> all;
  for (std::int32_t rank = 0; rank < ranks; ++rank) all.push_back(rank);
  return tests::on_ranks(ranks, all, patient, [&](real::ControlChannel& channel) -> std::string {
    if (channel.rank() == 0) return model::to_bytes(LeadingTasks(channel, nullptr).run(set(0)));
    return model::to_bytes(FollowingTasks(channel, 2).run(set(channel.rank())));
  });
}

TEST(JobTasks, EveryRankHasTheResultsOfOneProcess) {
  std::atomic<int> calls = 0;
  const std::string expected = model::to_bytes(Result<std::vector<std::string>>(all_squares()));
  for (const std::string& of_rank : spread(4, [&](std::int32_t) { return squares(&calls); }))
    EXPECT_EQ(of_rank, expected);
  EXPECT_EQ(calls, static_cast<int>(many));  // each task once, on one of the ranks
}

TEST(JobTasks, TheFirstTaskThatFailedEndsTheSetOnEveryRank) {
  const auto fails = [](std::int32_t) -> sim::TaskSet {
    return {.key = "fails", .count = many, .run = [](std::size_t task) -> Result<std::string> {
              if (task % 10 == 9) return model::infeasible("", "task " + std::to_string(task));
              return "";
            }};
  };
  for (const std::string& of_rank : spread(3, fails)) {
    const auto results = model::from_bytes<Result<std::vector<std::string>>>(of_rank).value();
    ASSERT_FALSE(results);
    EXPECT_EQ(results.error().message, "task 9");
  }
}

TEST(JobTasks, ARankWithOtherInputsEndsTheSet) {
  const auto of_rank = spread(3, [](std::int32_t rank) {
    sim::TaskSet set = squares();
    if (rank == 2) set.key = "cubes";
    return set;
  });
  for (const std::string& one : of_rank)
    EXPECT_NE(model::from_bytes<Result<std::vector<std::string>>>(one).value().error().message.find("rank 2 has other"),
              std::string::npos);
}

// Rank 1 takes a batch and ends during it.
TEST(JobTasks, TasksOfALostRankAreDoneByOthers) {
  std::atomic<bool> taken = false;
  const auto of_rank = tests::on_ranks(3, {0, 1, 2}, patient, [&](real::ControlChannel& channel) -> std::string {
    sim::TaskSet set = squares();
    if (channel.rank() == 1) {
      set.run = [&](std::size_t) -> Result<std::string> {
        taken = true;
        return model::infeasible("", "");
      };
      // It asks for tasks as a rank does, runs them, and leaves without a report.
      struct Silent final : real::ControlChannel {
        explicit Silent(real::ControlChannel& through) : inner(through) {}
        std::int32_t rank() const override { return inner.rank(); }
        std::int32_t ranks() const override { return inner.ranks(); }
        Result<void> send(std::int32_t rank, const std::string& bytes) override {
          if (++sent > 1) return model::infeasible("", "gone");
          return inner.send(rank, bytes);
        }
        Result<std::string> receive(std::int32_t rank) override { return inner.receive(rank); }
        void abort(const std::string&) override {}
        std::optional<std::string> failure() const override { return std::nullopt; }
        real::ControlChannel& inner;
        int sent = 0;
      } silent(channel);
      return FollowingTasks(silent, 1).run(set) ? "" : "gone";
    }
    // The others begin when it has its batch. Rank 0 has one core: on many it could take all tasks before.
    const auto run = set.run;
    set.run = [&, run](std::size_t task) {
      while (!taken) std::this_thread::yield();
      return run(task);
    };
    const auto lead = [&] { return model::to_bytes(LeadingTasks(channel, nullptr).run(set)); };
    if (channel.rank() == 0) return sim::on_threads(1, lead);
    return model::to_bytes(FollowingTasks(channel, 1).run(set));
  });
  const std::string expected = model::to_bytes(Result<std::vector<std::string>>(all_squares()));
  EXPECT_EQ(of_rank[0], expected);
  EXPECT_EQ(of_rank[1], "gone");
  EXPECT_EQ(of_rank[2], expected);
}

TEST(JobTasks, StoredResultsAreTakenByKey) {
  const tests::TemporaryDirectory folder;
  const std::string path = (folder.path() / "results.db").string();
  const auto channel = real::lone_channel();
  const auto run = [&](const sim::TaskSet& set) {
    const auto store = ResultStore::open(path).value();
    return LeadingTasks(*channel, store.get()).run(set);
  };
  std::atomic<int> calls = 0;
  sim::TaskSet half = squares(&calls);
  half.run = [&calls](std::size_t task) -> Result<std::string> {
    if (task == many / 2) return model::infeasible("", "interrupted");
    ++calls;
    return std::to_string(task * task);
  };
  EXPECT_FALSE(run(half));
  const int before = calls;
  EXPECT_GE(before, static_cast<int>(many / 2));
  EXPECT_EQ(run(squares(&calls)).value(), all_squares());
  EXPECT_EQ(calls, static_cast<int>(many));  // none twice
  sim::TaskSet other = squares(&calls);
  other.key = "other squares";
  EXPECT_EQ(run(other).value(), all_squares());
  EXPECT_EQ(calls, static_cast<int>(2 * many));
}

// Executes statements of SQL on a file that no store has open.
void change(const std::string& path, const char* statements) {
  sqlite3* file = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &file), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(file, statements, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(file);
  sqlite3_close(file);
}

TEST(ResultStore, RefusesResultsThatAreNotOfTheirKey) {
  const tests::TemporaryDirectory folder;
  const std::string path = (folder.path() / "results.db").string();
  const auto store = [&] { return ResultStore::open(path).value(); };
  {
    const auto first = store();
    ASSERT_TRUE(first->put("set", 0, "zero"));
    ASSERT_TRUE(first->put("set", 1, "one"));
  }
  EXPECT_EQ(store()->find("set").value(), (std::map<std::size_t, std::string>{{0, "zero"}, {1, "one"}}));
  change(path,
         "UPDATE results SET task = 2 WHERE task = 0; UPDATE results SET task = 0 WHERE task = 1;"
         "UPDATE results SET task = 1 WHERE task = 2");
  const auto swapped = store()->find("set");
  ASSERT_FALSE(swapped);
  EXPECT_EQ(swapped.error().key, "--resume");
  EXPECT_NE(swapped.error().message.find("task 0 is not the one that was kept"), std::string::npos);
  EXPECT_TRUE(store()->find("other set").value().empty());
}

TEST(ResultStore, RefusesViewsAndTriggers) {
  for (const char* addition : {"ALTER TABLE results RENAME TO r; CREATE VIEW results AS SELECT * FROM r",
                               "CREATE TRIGGER t AFTER INSERT ON results BEGIN DELETE FROM results; END"}) {
    const tests::TemporaryDirectory folder;
    const std::string path = (folder.path() / "results.db").string();
    ASSERT_TRUE(ResultStore::open(path));
    ASSERT_TRUE(ResultStore::open(path));  // its own file again
    change(path, addition);
    const auto changed = ResultStore::open(path);
    ASSERT_FALSE(changed) << addition;
    EXPECT_NE(changed.error().message.find("no file of results"), std::string::npos) << changed.error().message;
  }
}

TEST(ResultStore, RefusesOtherFiles) {
  const tests::TemporaryDirectory folder;
  const auto text = ResultStore::open(folder.write("notes.txt", std::string(5000, 'x')).string());
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().key, "--resume");
  EXPECT_NE(text.error().message.find("no file of results"), std::string::npos) << text.error().message;
  const auto nowhere = ResultStore::open((folder.path() / "missing" / "results.db").string());
  ASSERT_FALSE(nowhere);
  EXPECT_NE(nowhere.error().message.find("cannot be opened"), std::string::npos) << nowhere.error().message;
  const std::string path = (folder.path() / "results.db").string();
  const auto first = ResultStore::open(path);
  ASSERT_TRUE(first);
  const auto second = ResultStore::open(path);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find("another run"), std::string::npos) << second.error().message;
}

}  // namespace
}  // namespace plumbline::cli
