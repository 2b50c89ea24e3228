// A sweep of cases on a made-up machine: cases skipped, postponed and written, and its end.
#include "real/measure/kernel_case/case_sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace plumbline::real {
namespace {

// Every sample takes a millisecond.
class SteadyRunner final : public Runner {
 public:
  SteadyRunner(std::size_t subjects, int samples) : subjects_(subjects), samples_(samples) {}
  model::Result<std::vector<Sample>> round(std::size_t /*number*/) override {
    std::vector<Sample> samples;
    for (std::size_t subject = 0; subject < subjects_; ++subject)
      for (int i = 0; i < samples_; ++i) samples.push_back({subject, 1e-3});
    return samples;
  }
  Findings findings(std::size_t subject) const override { return {.note = "subject " + std::to_string(subject)}; }

 private:
  std::size_t subjects_;
  int samples_;
};

class MadeUpMachine final : public CaseMachine {
 public:
  std::string device() const override { return "made up"; }
  int sms() const override { return 4; }
  std::string environment() const override { return "{}"; }
  bool lost() const override { return lost_; }
  model::Result<std::unique_ptr<Runner>> prepare(const KernelCase& what, int samples) override {
    prepared_.push_back(to_line(what));
    const auto failure = failures_.find(to_line(what));
    if (failure == failures_.end()) return std::make_unique<SteadyRunner>(subjects_of(what).size(), samples);
    lost_ = failure->second == "lost";
    return tl::unexpected(model::Error{model::ErrorKind::infeasible, failure->second});
  }

  std::map<std::string, std::string> failures_;
  std::vector<std::string> prepared_;

 private:
  bool lost_ = false;
};

std::vector<KernelCase> cases_of(const std::vector<std::string>& lines) {
  std::vector<KernelCase> cases;
  for (const std::string& line : lines) cases.push_back(parse_kernel_case(line).value());
  return cases;
}

class CaseSweep : public testing::Test {
 protected:
  SweepSummary sweep(const std::vector<std::string>& lines, std::optional<double> budget_s = std::nullopt) {
    const auto journal = Journal::open(path_, machine_.device()).value();
    Budget budget(budget_s, [] { return 0.0; });
    options_.floor_s = [](const KernelCase&) { return 0.0; };
    const CaseRecords records = {
        [](const KernelCase& what, const Series& series, const Findings& findings) {
          return R"({"kind":"measurement","device":"made up","case":")" + to_line(what) + R"(","cache":")" +
                 series.subject.cache + R"(","variant":")" + series.subject.variant + R"(","samples":)" +
                 std::to_string(series.seconds.size()) + R"(,"note":")" + findings.note + "\"}\n";
        },
        [](const KernelCase& what, const std::string& reason) {
          return R"({"kind":"failure","device":"made up","case":")" + to_line(what) + R"(","reason":")" + reason +
                 "\"}\n";
        }};
    return measure_cases(cases_of(lines), machine_, *journal, budget, records, options_,
                         [this](const std::string& line) { said_.push_back(line); });
  }
  std::string file() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

  const tests::TemporaryDirectory folder_;
  const std::string path_ = folder_.path() / "records.jsonl";
  MadeUpMachine machine_;
  SweepOptions options_;
  std::vector<std::string> said_;
};

TEST_F(CaseSweep, WritesEachVariantWithItsSamplesAndFindings) {
  const SweepSummary summary = sweep({"copy bytes=1000000000"});
  EXPECT_EQ(summary.measured, 1);
  EXPECT_EQ(summary.end, SweepEnd::done);
  EXPECT_THAT(file(), testing::HasSubstr(R"("variant":"kernel","samples":30,"note":"subject 0")"));
  EXPECT_THAT(file(), testing::HasSubstr(R"("variant":"driver","samples":30,"note":"subject 1")"));
  // The copy moves 2e9 bytes in a millisecond.
  EXPECT_THAT(said_, testing::ElementsAre(
                         "copy bytes=1000000000: cold kernel 1000.0 us, 2000 GB/s; cold driver 1000.0 us, 2000 "
                         "GB/s"));
}

TEST_F(CaseSweep, ContinuesFromWhatIsThere) {
  sweep({"launch"});
  const SweepSummary summary = sweep({"launch", "graph nodes=2"});
  EXPECT_EQ(summary.skipped, 1);
  EXPECT_EQ(summary.measured, 1);
  EXPECT_THAT(machine_.prepared_, testing::ElementsAre("launch", "graph nodes=2"));
}

TEST_F(CaseSweep, RepeatsWhatFailedOnlyWhenAskedTo) {
  machine_.failures_["launch"] = "wrong numbers";
  EXPECT_EQ(sweep({"launch"}).failed, 1);
  EXPECT_THAT(file(), testing::HasSubstr(R"("reason":"wrong numbers")"));
  EXPECT_EQ(sweep({"launch"}).skipped, 1);
  machine_.failures_.clear();
  options_.retry = true;
  EXPECT_EQ(sweep({"launch"}).measured, 1);
}

TEST_F(CaseSweep, EndsWhereTheDeviceIsLostAndThenPassesOverTheCase) {
  machine_.failures_["graph nodes=2"] = "lost";
  const std::vector<std::string> lines = {"launch", "graph nodes=2", "graph nodes=3"};
  const SweepSummary summary = sweep(lines);
  EXPECT_EQ(summary.end, SweepEnd::device_lost);
  EXPECT_EQ(summary.measured + summary.failed, 2);
  EXPECT_THAT(file(), testing::HasSubstr("(the device context is lost)"));
  const SweepSummary rest = sweep(lines);
  EXPECT_EQ(rest.skipped, 2);
  EXPECT_EQ(rest.measured, 1);
}

TEST_F(CaseSweep, PassesOverWhatDoesNotFitIntoTheBudget) {
  const SweepSummary summary = sweep({"gemm phase=F format=bf16 m=64 n=64 k=64 soak=5", "launch"}, 1.0);
  EXPECT_EQ(summary.postponed, 1);
  EXPECT_EQ(summary.measured, 1);
  EXPECT_EQ(summary.end, SweepEnd::out_of_time);
}

// Each rank waits for the others, so none may leave out a case.
TEST_F(CaseSweep, RanksInStepMeasureEverythingAndOneOfThemWrites) {
  sweep({"launch"});
  const std::string before = file();
  options_.in_step = true;
  options_.writes = false;
  EXPECT_EQ(sweep({"launch", "graph nodes=2"}, 0.001).measured, 2);
  EXPECT_EQ(file(), before);
}

TEST_F(CaseSweep, EndsAfterTheCaseThatIsInterrupted) {
  options_.interrupted = [this] { return !machine_.prepared_.empty(); };
  const SweepSummary summary = sweep({"launch", "graph nodes=2"});
  EXPECT_EQ(summary.measured, 1);
  EXPECT_EQ(summary.end, SweepEnd::interrupted);
}

}  // namespace
}  // namespace plumbline::real
