// Predicted against executed: the host's program runs under a simulated MPI, where computation is executed and ranks
// and network are simulated, so that a loaded machine hardly shows. Operators and messages are measured, a profile is
// made of them, a step is predicted and run, round by round; the middle of the rounds must be near 1. Pipelines have so
// much bubble that a prediction without it would fail.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace plumbline::tests {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr double tolerance = 0.1;
constexpr std::size_t rounds = 9;
constexpr double quiet_spread = 0.1;  // of the middle half of the rounds

struct Plan {
  int ranks = 1;
  std::string parallelism;  // lines of the table
  int batch = 4;            // sequences of a step
  std::string schedule = "1f1b";
  std::string model = {};  // changed keys
  int tokens = 128;        // of a sequence
};

std::string text_of(const Plan& plan) {
  return "[model]\nconfig = \"tiny-moe\"\n" + plan.model +
         "[cluster]\ntopology = \"host\"\ngpus = " + std::to_string(plan.ranks) + "\n[parallelism]\n" +
         plan.parallelism + "[batch]\nsequence_length = " + std::to_string(plan.tokens) +
         "\nmicro_batch_size = 1\nglobal_batch_size = " + std::to_string(plan.batch) + "\n[schedule]\nkind = \"" +
         plan.schedule +
         "\"\n[precision]\ngemm = \"fp32\"\ndispatch = \"fp32\"\ncombine = \"fp32\"\n"
         "[overlap]\ngradient_reduce = false\nparameter_gather = false\n";
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Whether there are rounds enough: those of a machine that something disturbs scatter, and more are taken, all of which
// count. How near they are to 1 plays no part.
bool enough(std::vector<double> ratios) {
  if (testing::Test::HasFatalFailure() || ratios.size() >= 3 * rounds) return true;
  if (ratios.size() % rounds != 0 || ratios.empty()) return false;
  std::ranges::sort(ratios);
  return ratios[ratios.size() * 3 / 4] - ratios[ratios.size() / 4] <= quiet_spread;
}

// The programs, in a folder of their own.
class Laboratory {
 public:
  Laboratory(std::string name, const Plan& plan) : name_(std::move(name)), plan_(plan) {
    write(name_ + ".toml", text_of(plan));
    write(name_ + ".cases.toml", "[[plan]]\nplan = \"" + path(name_ + ".toml") +
                                     "\"\ncores = [1]\n[[message]]\nbytes = [64, 4096, 65536, 262144, 1048576]\n");
    std::string hosts;
    for (int rank = 0; rank < plan.ranks; ++rank) hosts += "gpu" + std::to_string(rank) + "\n";
    write("hosts", hosts);
    command("export simgrid " + path(name_ + ".toml") + " -o " + path("platform.xml"));
  }

  std::string path(const std::string& file) const { return (fs::path(folder_.path()) / file).string(); }

  void command(const std::string& words) const { run(std::string(PLUMBLINE_BINARY_DIR) + "/plumbline " + words); }

  // Hosts of the platform compute as fast as the machine that measures.
  void ranks(const std::string& words) const {
    run(std::string(PLUMBLINE_SMPIRUN) + " -np " + std::to_string(plan_.ranks) + " -platform " + path("platform.xml") +
        " -hostfile " + path("hosts") + " " PLUMBLINE_SMPI_FLAGS " --cfg=smpi/host-speed:" + speed() + " " +
        std::string(PLUMBLINE_BINARY_DIR) + "/plumbline-smpi " + words);
  }

  void calibrate() const {
    ranks("measure --backend host " + path(name_ + ".cases.toml") + " --rounds 4 -o " + path("measured.jsonl"));
    command("calibrate " + path("measured.jsonl") + " -o " + path("profile.toml"));
  }

  Json predict(const std::string& plan, const std::string& changes = "") const {
    command("simulate " + plan + " --set cluster.profile=" + path("profile.toml") + " " + changes + " --json " +
            path("predicted.json"));
    return read("predicted.json");
  }

  Json execute(const std::string& plan, const std::string& options) const {
    ranks("run " + plan + " " + options + " --json " + path("executed.json"));
    return read("executed.json");
  }

  std::string plan() const { return path(name_ + ".toml"); }

  void write(const std::string& file, const std::string& text) const { std::ofstream(path(file)) << text; }

 private:
  static void run(const std::string& line) { ASSERT_EQ(std::system((line + " > /dev/null 2>&1").c_str()), 0) << line; }

  Json read(const std::string& file) const {
    std::ifstream in(path(file));
    return Json::parse(in, nullptr, false);
  }

  // As the platform's file states it: speed="96000000000f".
  std::string speed() const {
    std::ifstream in(path("platform.xml"));
    const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    const std::string before = "speed=\"";
    const std::size_t from = text.find(before) + before.size();
    return text.substr(from, text.find('"', from) - from);
  }

  TemporaryDirectory folder_;
  std::string name_;
  Plan plan_;
};

double time_of(const Json& result) { return result["step"]["time_s"].get<double>(); }

// Share of the step in which rank 0 waits for other stages.
double bubble_of(const Json& result) { return result["step"]["bubble_s"].get<double>() / time_of(result); }

void expect_near_one(const std::vector<double>& ratios) {
  std::string all;
  for (const double ratio : ratios) all += " " + std::to_string(ratio);
  std::cout << "executed over predicted: median " << median(ratios) << " of" << all << "\n";
  EXPECT_NEAR(median(ratios), 1, tolerance);
}

// Executed over predicted, round by round; of each run the middle of two steps behind one that warms up.
void expect_near(const std::string& name, const Plan& plan, double least_bubble) {
  const Laboratory laboratory(name, plan);
  std::vector<double> ratios;
  while (!enough(ratios)) {
    laboratory.calibrate();
    const Json predicted = laboratory.predict(laboratory.plan());
    const Json executed = laboratory.execute(laboratory.plan(), "--steps 3");
    if (testing::Test::HasFatalFailure()) return;
    EXPECT_GE(bubble_of(predicted), least_bubble);
    ratios.push_back(time_of(executed) / time_of(predicted));
  }
  expect_near_one(ratios);
}

TEST(SimulatedRanks, PipelineOfTwo) { expect_near("pp2", {2, "pipeline = 2\n", 2}, 0.3); }

TEST(SimulatedRanks, PipelineOfFour) { expect_near("pp4", {4, "pipeline = 4\n", 4}, 0.3); }

TEST(SimulatedRanks, DataParallelOfTwo) { expect_near("dp2", {2, "zero_stage = 1\n", 4}, 0); }

// Rows of the ranks of an expert group for routing.rows_per_rank: of each layer the most loaded rank, the second, and
// so on, a layer on average. Whoever it is, the others wait for the most loaded one.
std::string rows_per_rank(const Json& executed, std::size_t ranks) {
  std::vector<double> sum(ranks);
  for (const Json& layer : executed["training"]["expert_load"]) {
    const auto rows = layer["rows"].get<std::vector<double>>();
    std::vector<double> loads(ranks);
    for (std::size_t expert = 0; expert < rows.size(); ++expert) loads[expert * ranks / rows.size()] += rows[expert];
    std::ranges::sort(loads, std::greater());
    for (std::size_t rank = 0; rank < ranks; ++rank) sum[rank] += loads[rank];
  }
  std::string text;
  for (const double rows : sum) text += (text.empty() ? "" : ",") + std::to_string(std::lround(rows));
  return "[" + text + "]";
}

// Untrained routers send most tokens to few experts, so they are balanced first. A step is one micro-batch: its loads
// are those that the ranks wait for, and the prediction is told them.
TEST(SimulatedRanks, ExpertsOverFour) {
  const Laboratory laboratory("ep4",
                              {4, "expert = 4\n", 4, "1f1b", "n_routed_experts = 32\nnum_experts_per_tok = 4\n", 256});
  constexpr int balanced = 24;
  laboratory.command("run " + laboratory.plan() + " --clock cpu --balance 0.01 --steps " + std::to_string(balanced) +
                     " --checkpoint " + laboratory.path("balanced"));
  std::vector<double> ratios;
  while (!enough(ratios)) {
    fs::remove_all(laboratory.path("resumed"));
    fs::copy(laboratory.path("balanced"), laboratory.path("resumed"), fs::copy_options::recursive);
    laboratory.calibrate();
    const Json executed =
        laboratory.execute(laboratory.plan(), "--balance 0.01 --resume --checkpoint " + laboratory.path("resumed") +
                                                  " --steps " + std::to_string(balanced + 2));
    if (HasFatalFailure()) return;
    const Json predicted =
        laboratory.predict(laboratory.plan(), "--set routing.rows_per_rank=" + rows_per_rank(executed, 4));
    if (HasFatalFailure()) return;
    ratios.push_back(executed["training"]["seconds"].back().get<double>() / time_of(predicted));
  }
  expect_near_one(ratios);
}

// Eight ranks and sixteen micro-batches, the fewest that DualPipe wants: 1F1B idles for two fifths of its step.
TEST(SimulatedRanks, SchedulesComeInThePredictedOrder) {
  const std::string parallelism = "pipeline = 8\n", layers = "num_hidden_layers = 8\n";
  const std::vector<std::string> schedules = {"1f1b", "zb-h1", "dualpipe"};
  const Laboratory laboratory("dualpipe", {8, parallelism, 16, "dualpipe", layers});
  for (const std::string& schedule : schedules)
    laboratory.write(schedule + ".toml", text_of({8, parallelism, 16, schedule, layers}));
  std::vector<std::vector<double>> predicted(schedules.size()), executed(schedules.size());
  std::vector<double> bubbles;
  constexpr int few = 5;
  for (int round = 0; round < few && !HasFatalFailure(); ++round) {
    laboratory.calibrate();
    for (std::size_t i = 0; i < schedules.size(); ++i) {
      const std::string plan = laboratory.path(schedules[i] + ".toml");
      const Json prediction = laboratory.predict(plan), execution = laboratory.execute(plan, "--steps 3");
      if (HasFatalFailure()) return;
      predicted[i].push_back(time_of(prediction));
      executed[i].push_back(time_of(execution));
      if (schedules[i] == "1f1b") bubbles.push_back(bubble_of(prediction));
    }
  }
  EXPECT_GE(median(bubbles), 0.3);
  // What else the machine does only lengthens a step: the shortest one tells schedules apart.
  const auto shortest = [](const std::vector<double>& steps) { return *std::ranges::min_element(steps); };
  for (std::size_t i = 0; i < schedules.size(); ++i)
    std::cout << schedules[i] << ": predicted " << median(predicted[i]) << " s, executed " << shortest(executed[i])
              << " s at best, " << median(executed[i]) << " s in the middle\n";
  for (std::size_t i = 0; i + 1 < schedules.size(); ++i) {
    EXPECT_GT(median(predicted[i]), median(predicted[i + 1])) << schedules[i] << " and " << schedules[i + 1];
    EXPECT_GT(shortest(executed[i]), shortest(executed[i + 1])) << schedules[i] << " and " << schedules[i + 1];
  }
}

}  // namespace
}  // namespace plumbline::tests
