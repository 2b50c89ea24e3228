// Where the token of a job comes from.
#include "real/bootstrap/detail/job_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace plumbline::real {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

model::Result<std::string> token(const std::map<std::string, std::string>& variables,
                                 Machines machines = Machines::one) {
  return read_job_token(machines, [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(JobToken, IsThatOfTheEnvironment) {
  EXPECT_EQ(token({{"PLUMBLINE_JOB_TOKEN", "0123456789abcdef"}, {"HOME", "/nowhere"}}), "0123456789abcdef");
  EXPECT_EQ(to_string(token({{"PLUMBLINE_JOB_TOKEN", "secret"}}).error()),
            "PLUMBLINE_JOB_TOKEN: 6 characters can be guessed (at least 16: openssl rand -hex 16)");
}

// torchrun's own id is "none" unless somebody chooses one, which no token is made of.
TEST(JobToken, IsTorchrunsIdWhereMachinesShareNoFile) {
  const tests::TemporaryDirectory home;
  const std::string id = "8f14e45f-ceea-467f-a9b0-5c6e2f1d7a10";
  std::map<std::string, std::string> variables{{"TORCHELASTIC_RUN_ID", id}, {"HOME", home.path().string()}};
  EXPECT_EQ(token(variables, Machines::several), id);
  const std::string own = token(variables, Machines::one).value();
  EXPECT_NE(own, id);
  variables["TORCHELASTIC_RUN_ID"] = "none";
  EXPECT_EQ(token(variables, Machines::several), own);
}

TEST(JobToken, IsAFileThatTheFirstProcessCreatesForItsUserAlone) {
  const tests::TemporaryDirectory home;
  std::vector<std::string> tokens(8);
  std::vector<std::jthread> processes;
  for (std::string& own : tokens)
    processes.emplace_back([&] { own = token({{"HOME", home.path().string()}}).value(); });
  processes.clear();
  EXPECT_THAT(tokens, testing::Each(tokens[0]));
  EXPECT_EQ(tokens[0].size(), 65U);  // 32 bytes as digits, and the end of the line
  const fs::path file = home.path() / ".local/state/plumbline/job-token";
  EXPECT_EQ(fs::status(file).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(std::distance(fs::directory_iterator(file.parent_path()), fs::directory_iterator()), 1);
  EXPECT_EQ(token({{"HOME", "/nowhere"}, {"XDG_STATE_HOME", (home.path() / ".local/state").string()}}), tokens[0]);
}

TEST(JobToken, RefusesFilesThatOthersCanReadOrReplace) {
  const tests::TemporaryDirectory state;
  const fs::path file = state.write("plumbline/job-token", std::string(65, 'x'));
  const std::map<std::string, std::string> variables{{"XDG_STATE_HOME", state.path().string()}};
  EXPECT_THAT(to_string(token(variables).error()), HasSubstr("can be read by others (remove it, or set"));
  fs::permissions(file, fs::perms::owner_read);
  EXPECT_EQ(token(variables), std::string(65, 'x'));
  fs::rename(file, state.path() / "elsewhere");
  fs::create_symlink(state.path() / "elsewhere", file);
  EXPECT_THAT(to_string(token(variables).error()), HasSubstr("cannot be read"));
  fs::remove(file);
  fs::create_directory(file);
  EXPECT_THAT(to_string(token(variables).error()), HasSubstr("is no file"));
}

TEST(JobToken, NamesWhatToSetWhereThereIsNoPlaceForAFile) {
  EXPECT_THAT(to_string(token({}).error()), HasSubstr("set PLUMBLINE_JOB_TOKEN to the same secret on all ranks"));
  EXPECT_THAT(to_string(token({{"HOME", "/dev/null"}}).error()),
              HasSubstr("set PLUMBLINE_JOB_TOKEN to the same secret on all ranks"));
}

}  // namespace
}  // namespace plumbline::real
