#include <gtest/gtest.h>

#include <string>

#include "cli/make_profiles.h"
#include "model/base/text_file.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::cli {
namespace {

TEST(MakeStack, TakesPlansAndTheirMeasuredSteps) {
  const tests::TemporaryDirectory folder;
  std::string rows = "plan,step_s\n";
  for (const char* seconds : {"8.1", "8.2", "8.3"}) rows += std::string("llama-3-8b-fsdp-64xh100,") + seconds + "\n";
  const std::string stack = (folder.path() / "mine.toml").string();
  const auto made = make_stack(folder.write("steps.csv", rows).string(), stack, "", "");
  ASSERT_TRUE(made) << model::to_string(made.error());
  EXPECT_NE(model::read_text_file(stack)->find("kind = \"fitted\""), std::string::npos);
}

TEST(MakeStack, NamesTheCellOfAPlanThatIsWrong) {
  const tests::TemporaryDirectory folder;
  const auto time = make_stack(folder.write("steps.csv", "plan,step_s\nllama-3-8b-64xh800,-1\n").string(), "-", "", "");
  ASSERT_FALSE(time);
  EXPECT_EQ(time.error().line, 2);
  EXPECT_EQ(time.error().key, "step_s");
  const auto column = make_stack(folder.write("other.csv", "plan\nllama-3-8b-64xh800\n").string(), "-", "", "");
  ASSERT_FALSE(column);
  EXPECT_EQ(column.error().key, "step_s");
}

}  // namespace
}  // namespace plumbline::cli
