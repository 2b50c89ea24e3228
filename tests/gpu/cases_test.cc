// Runs every kernel and number format of the shipped smoke test with its results checked, and a sweep that continues
// from its file.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "real/cuda/device_state.h"
#include "real/cuda/measure/case_machine.h"
#include "real/measure/kernel_case/case_sweep.h"
#include "tests/support/folders.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::tests {
namespace {

using real::KernelCase;

std::vector<std::string> smoke_lines() {
  std::ifstream file(source_folder() + "/real/cuda/cases/smoke.cases");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);)
    if (!line.empty() && line.front() != '#') lines.push_back(line);
  return lines;
}

KernelCase parsed(const std::string& line) { return real::parse_kernel_case(line).value(); }

class GpuCases : public testing::Test {
 protected:
  void SetUp() override {
    const real::cuda::DeviceReport report = real::cuda::look_for_device(0);
    if (report.state != real::cuda::DeviceState::ok) GTEST_SKIP() << report.message;
    auto opened = real::cuda::open_case_machine({}, *channel_);
    ASSERT_TRUE(opened) << opened.error().message;
    machine_ = std::move(*opened);
  }

  // Each round has the requested number of samples of every subject, and its results were right.
  void expect_measured(const KernelCase& what) {
    constexpr int samples = 2;
    const auto runner = machine_->prepare(what, samples);
    ASSERT_TRUE(runner) << runner.error().message;
    const auto taken = (*runner)->round(0);
    ASSERT_TRUE(taken) << taken.error().message;
    const std::vector<real::Subject> subjects = subjects_of(what);
    for (std::size_t subject = 0; subject < subjects.size(); ++subject)
      EXPECT_EQ(std::ranges::count(*taken, subject, &real::Sample::subject), samples) << subjects[subject].variant;
    for (const real::Sample& sample : *taken) EXPECT_GE(sample.seconds, 0);
    const auto check = (*runner)->findings(0).check;
    EXPECT_TRUE(!check || check->ok);
  }

  const std::unique_ptr<real::ControlChannel> channel_ = real::lone_channel();
  std::unique_ptr<real::CaseMachine> machine_;
};

class SmokeCases : public GpuCases, public testing::WithParamInterface<std::string> {};

TEST_P(SmokeCases, AreCheckedAndTimed) { expect_measured(parsed(GetParam())); }

std::string name_of(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Gpu, SmokeCases, testing::ValuesIn(smoke_lines()), name_of);

TEST_F(GpuCases, RunWithACopyThatHoldsSms) {
  expect_measured(parsed("partition kernel=adamw ctas=2 elements=4096"));
  expect_measured(parsed("partition kernel=adamw ctas=2 copy_gbps=0 elements=4096"));
  expect_measured(parsed("partition kernel=adamw ctas=0 elements=4096"));
}

TEST_F(GpuCases, ContinueFromTheFile) {
  const std::vector<KernelCase> cases = {parsed("host_to_device bytes=4096"), parsed("graph nodes=2"),
                                         parsed("gemm phase=F format=bf16 m=64 n=64 k=64")};
  const TemporaryDirectory folder;
  const std::string path = folder.path() / "records.jsonl";
  const auto line = [&](const std::string& kind, const std::string& name, const std::string& rest) {
    return R"({"kind":")" + kind + R"(","device":")" + machine_->device() + R"(","case":")" + name + '"' + rest + "}\n";
  };
  const real::CaseRecords records = {
      [&](const KernelCase& what, const real::Series& series, const real::Findings&) {
        return line("measurement", to_line(what),
                    R"(,"cache":")" + series.subject.cache + R"(","variant":")" + series.subject.variant + '"');
      },
      [&](const KernelCase& what, const std::string&) { return line("failure", to_line(what), ""); }};
  const auto sweep = [&](const std::vector<KernelCase>& wanted) {
    const auto journal = real::Journal::open(path, machine_->device()).value();
    real::Budget budget(std::nullopt, [] { return 0.0; });
    real::SweepOptions options{.samples = 5};
    options.floor_s = [](const KernelCase&) { return 0.0; };
    return real::measure_cases(wanted, *machine_, *journal, budget, records, options, [](const std::string&) {});
  };
  EXPECT_EQ(sweep({cases[0]}).measured, 1);
  const real::SweepSummary rest = sweep(cases);
  EXPECT_EQ(rest.skipped, 1);
  EXPECT_EQ(rest.measured, 2);
  EXPECT_EQ(rest.end, real::SweepEnd::done);
  EXPECT_EQ(sweep(cases).skipped, 3);
}

}  // namespace
}  // namespace plumbline::tests
