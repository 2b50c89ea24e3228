// Tests verbs whose work is spread over processes, and that go on after a kill: the answer is that of one process, byte
// by byte.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/command.h"
#include "tests/support/folders.h"
#include "tests/support/free_port.h"

namespace plumbline::tests {
namespace {

namespace fs = std::filesystem;

const std::string example = source_folder() + "/examples/host-dualpipe.toml";
const std::string sweep = "sweep " + example + " --over batch.global_batch_size=4..256:4 --over cluster.gpus=2,4";
const std::string search = "plan " + example + " --top 3";
const std::string training = "campaign deepseek-v3-2048xh800 --no-interval --seeds 4000";

// Returns the words that start a process as one rank of a job without MPI, as torchrun sets them.
std::string as_rank(int rank, int ranks, int port) {
  return "env RANK=" + std::to_string(rank) + " WORLD_SIZE=" + std::to_string(ranks) +
         " LOCAL_RANK=" + std::to_string(rank) + " MASTER_ADDR=127.0.0.1 PLUMBLINE_PORT=" + std::to_string(port) +
         " PLUMBLINE_JOB_TOKEN=the-token-of-this-test";
}

std::vector<std::string> words_of(const std::string& line) { return {"sh", "-c", "exec " + line}; }

std::size_t stored(const fs::path& file) {
  sqlite3* database = nullptr;
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_open(file.c_str(), &database) != SQLITE_OK) throw std::runtime_error("cannot open " + file.string());
  sqlite3_prepare_v2(database, "SELECT count(*) FROM results", -1, &statement, nullptr);
  const bool read = sqlite3_step(statement) == SQLITE_ROW;
  const std::size_t count = read ? static_cast<std::size_t>(sqlite3_column_int64(statement, 0)) : 0;
  sqlite3_finalize(statement);
  sqlite3_close(database);
  return count;
}

std::uintmax_t size_of(const fs::path& file) {
  std::error_code missing;
  const std::uintmax_t bytes = fs::file_size(file, missing);
  return missing ? 0 : bytes;
}

class Spread : public testing::TestWithParam<std::string> {};
class Killed : public testing::TestWithParam<std::string> {};

TEST_P(Spread, UnderMpiGivesTheAnswerOfOneProcess) {
#ifdef PLUMBLINE_MPIRUN
  std::string mpirun = PLUMBLINE_MPIRUN;
  mpirun.replace(mpirun.find("RANKS"), 5, "4");
  const CommandResult alone = plumbline(GetParam() + " --json -"), job = plumbline(GetParam() + " --json -", mpirun);
  ASSERT_EQ(alone.exit_code, 0) << alone.errors;
  ASSERT_EQ(job.exit_code, 0) << job.errors;
  EXPECT_EQ(job.output, alone.output);
  const TemporaryDirectory folder;
  const std::string file = (folder.path() / "answer.json").string();
  const CommandResult written = plumbline(GetParam() + " --json " + file, mpirun), text = plumbline(GetParam());
  EXPECT_EQ(written.output, text.output);
  EXPECT_EQ(model::read_text_file(file).value(), alone.output);
#else
  GTEST_SKIP() << "this build has no MPI";
#endif
}

TEST_P(Spread, WithoutMpiGivesTheAnswerOfOneProcess) {
  const CommandResult alone = plumbline(GetParam() + " --json -");
  const int port = free_port();
  const std::string command = " " + plumbline_program() + " " + GetParam();
  Background second(words_of(as_rank(1, 3, port) + command)), third(words_of(as_rank(2, 3, port) + command));
  const CommandResult first = plumbline(GetParam() + " --json -", as_rank(0, 3, port));
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_EQ(first.output, alone.output);
  for (Background* other : {&second, &third}) EXPECT_EQ(other->wait(), 0);
}

// A process with other arguments, or without the token, is refused while the job waits for its ranks.
TEST(SpreadJob, RefusesProcessesOfAnotherJob) {
  const TemporaryDirectory folder;
  const std::string errors = (folder.path() / "first").string();
  const int port = free_port();
  const std::string program = " " + plumbline_program() + " ";
  Background first(words_of(as_rank(0, 2, port) + program + sweep), errors);
  const CommandResult stranger = plumbline(sweep, as_rank(1, 2, port) + " PLUMBLINE_JOB_TOKEN=the-token-of-others");
  EXPECT_EQ(stranger.exit_code, 2);
  EXPECT_NE(stranger.errors.find("it does not have the token of this job"), std::string::npos) << stranger.errors;
  const CommandResult differs = plumbline(sweep + " --over cluster.gpus=8", as_rank(1, 2, port));
  EXPECT_EQ(differs.exit_code, 2);
  EXPECT_NE(differs.errors.find("has other inputs: '--over = "), std::string::npos) << differs.errors;
  EXPECT_EQ(plumbline(sweep, as_rank(1, 2, port)).exit_code, 0);
  EXPECT_EQ(first.wait(), 0);
  const std::string log = model::read_text_file(errors).value();
  EXPECT_NE(log.find("127.0.0.1: it does not have the token of this job\n"), std::string::npos) << log;
  EXPECT_NE(log.find("rank 1 at 127.0.0.1: it has other inputs: '--over = "), std::string::npos) << log;
}

TEST_P(Killed, ResumesEveryTime) {
  const CommandResult alone = plumbline(GetParam() + " --json -");
  const TemporaryDirectory folder;
  const fs::path file = folder.path() / "results.db", log = folder.path() / "results.db-wal";
  const std::string resumed = GetParam() + " --json - --resume " + file.string();
  std::size_t kept = 0;
  constexpr int kills = 20;
  for (int i = 0; i < kills; ++i) {
    Background run(words_of(plumbline_program() + " " + resumed));
    // What is reported done is in the log first. Each run is killed once it has added to it, some of them more.
    constexpr std::uintmax_t result = 3 * 4096;  // opening the file, or keeping a result, writes up to so many bytes
    const std::uintmax_t before = static_cast<std::uintmax_t>(1 + i % 3) * result;
    if (!run.runs_until([&] { return size_of(log) > before; })) break;
    run.send(SIGKILL);
    run.wait();
    const std::size_t now = stored(file);
    EXPECT_GE(now, kept);
    kept = now;
  }
  kept = stored(file);  // a run that ended before it was killed kept all
  const CommandResult last = plumbline(resumed);
  ASSERT_EQ(last.exit_code, 0) << last.errors;
  EXPECT_EQ(last.output, alone.output);
  EXPECT_NE(last.errors.find("plumbline: " + std::to_string(kept) + " of "), std::string::npos) << last.errors;
  const CommandResult again = plumbline(resumed);
  EXPECT_EQ(again.output, alone.output);
}

INSTANTIATE_TEST_SUITE_P(Verbs, Spread, testing::Values(sweep, search, training));
INSTANTIATE_TEST_SUITE_P(Verbs, Killed, testing::Values(sweep, search));

}  // namespace
}  // namespace plumbline::tests
