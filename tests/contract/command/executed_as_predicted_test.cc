// A plan is executed as it is predicted: every rank runs the predicted slots and operators in the predicted order, and
// where kernels take the times of the profile (--clock profile) the step takes the predicted time. No result here
// depends on the speed of this machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "model/base/text_file.h"
#include "tests/support/command.h"
#include "tests/support/folders.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::tests {
namespace {

using Json = nlohmann::json;

// A tiny mixture of experts in FP32 on the cores of this machine; gradients are reduced after the slots.
const std::string plan_text = R"([model]
config = "tiny-moe"
[cluster]
topology = "host"
[batch]
sequence_length = 128
micro_batch_size = 1
[precision]
gemm = "fp32"
dispatch = "fp32"
combine = "fp32"
[overlap]
gradient_reduce = false
parameter_gather = false
)";

// A profile under which transfers, collectives and all-to-alls start at once and move at the rate of the links.
const std::string profile_of_links = R"(name = "links"
description = "host-datasheet with communication as fast as the links"
extends = "host-datasheet"
[exchange]
nvlink_rate = { value = 1e9, unit = "GB/s", kind = "assumed", source = "the links are slower" }
notify = { value = 0, unit = "us", kind = "assumed", source = "a test" }
[network]
nvlink_line_rate = { value = 1e9, unit = "GB/s", kind = "assumed", source = "the links are slower" }
nvlink_rate = { value = 1e9, unit = "GB/s", kind = "assumed", source = "the links are slower" }
latency = { value = 0, unit = "us", kind = "assumed", source = "a test" }
[collective]
nvlink_latency_scale = { value = 0, unit = "1", kind = "assumed", source = "a test" }
)";

// Events are rounded to picoseconds. The shortest step here takes 1e9 of them.
constexpr double rounding = 1e-6;
// An upper bound of the part that the links take of the longest communication here, the reduction of gradients over two
// ranks.
constexpr double share_of_links = 0.02;

struct Division {
  std::string name;
  int ranks;
  std::vector<std::string> keys;  // changes of the plan
};

void PrintTo(const Division& division, std::ostream* out) { *out << division.name; }

// The pipeline has 8 layers on 8 ranks and 16 micro-batches, the fewest that DualPipe accepts.
Division pipeline_of_eight(const std::string& name, const std::string& schedule) {
  return {name,
          8,
          {"parallelism.pipeline=8", "model.num_hidden_layers=8", "batch.global_batch_size=16",
           "schedule.kind=" + schedule}};
}

const Division one_forward_one_backward = pipeline_of_eight("OneForwardOneBackward", "1f1b"),
               zero_bubble = pipeline_of_eight("ZeroBubble", "zb-h1"),
               dualpipe = pipeline_of_eight("DualPipe", "dualpipe");

const auto divisions = testing::Values(
    Division{"PipelineOfTwo", 2, {"parallelism.pipeline=2", "batch.global_batch_size=2"}},
    Division{"PipelineOfFour", 4, {"parallelism.pipeline=4", "batch.global_batch_size=4"}},
    Division{"DataParallelOfTwo", 2, {"parallelism.zero_stage=1", "batch.global_batch_size=4"}},
    Division{"ExpertsOverFour", 4, {"parallelism.expert=4", "batch.global_batch_size=4"}},
    Division{
        "OverlappedExperts",
        4,
        {"parallelism.pipeline=2", "parallelism.expert=2", "batch.global_batch_size=16", "schedule.kind=dualpipe"}},
    one_forward_one_backward, zero_bubble, dualpipe);

std::string name_of(const testing::TestParamInfo<Division>& division) { return division.param.name; }

// Runs the command on one division of the plan.
class Laboratory {
 public:
  explicit Laboratory(const Division& division) : ranks_(division.ranks) {
    folder_.write("links.toml", profile_of_links);
    arguments_ =
        folder_.write("plan.toml", plan_text).string() + " --set cluster.gpus=" + std::to_string(division.ranks);
    for (const std::string& key : division.keys) arguments_ += " --set " + key;
  }

  // Returns the seconds of the step, where communication takes the times of the shipped profile.
  double predicted() const { return step("simulate " + arguments_); }
  // Returns the seconds where communication takes the time of the links, the least that any transport takes.
  double predicted_on_links() const {
    return step("simulate " + arguments_ + " --set cluster.profile=" + path("links.toml"));
  }
  // Returns the seconds where kernels take the times of the profile. All ranks are threads, and transfers take no time.
  double executed() const { return step("run " + arguments_ + " --clock profile --steps 1"); }

#ifdef PLUMBLINE_SMPIRUN
  // Returns the seconds on a simulated MPI, which sets the time of transfers. Time that the host computes does not
  // count.
  double executed_on_network() const {
    const CommandResult exported = plumbline("export simgrid " + arguments_ + " -o " + path("platform.xml"));
    EXPECT_EQ(exported.exit_code, 0) << exported.errors;
    std::string hosts;
    for (int rank = 0; rank < ranks_; ++rank) hosts += "gpu" + std::to_string(rank) + "\n";
    folder_.write("hosts", hosts);
    const std::string words = PLUMBLINE_SMPIRUN " -np " + std::to_string(ranks_) + " -platform " +
                              path("platform.xml") + " -hostfile " + path("hosts") +
                              " " PLUMBLINE_SMPI_FLAGS
                              " --cfg=smpi/simulate-computation:no --cfg=smpi/wtime:0"
                              " --cfg=smpi/host-speed:" +
                              speed() + " " + build_folder() + "/plumbline-smpi ";
    const std::string run = words + "run " + arguments_ + " --clock profile --steps 1 --json " + path("result.json");
    EXPECT_EQ(run_shell(run + " > /dev/null 2>&1"), 0) << run;
    return step_time();
  }
#endif

  // Returns the events of a trace by rank and track, in the order in which they began.
  std::map<std::pair<int, int>, std::vector<Json>> tracks(const std::string& verb) const {
    const CommandResult result = plumbline(verb + " " + arguments_ + " --trace " + path("trace.json"));
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    std::map<std::pair<int, int>, std::vector<Json>> tracks;
    const Json trace = json("trace.json");
    for (const Json& event : trace["traceEvents"])
      if (event["ph"] == "X") tracks[{event["pid"], event["tid"]}].push_back(event);
    const auto start = [](const Json& event) {
      return std::pair(event["ts"].get<double>(), -event["dur"].get<double>());
    };
    for (auto& [track, events] : tracks) std::ranges::stable_sort(events, {}, start);
    return tracks;
  }

 private:
  std::string path(const std::string& file) const { return (folder_.path() / file).string(); }
  Json json(const std::string& file) const { return Json::parse(model::read_text_file(path(file)).value()); }
  double step_time() const { return json("result.json")["step"]["time_s"].get<double>(); }

  double step(const std::string& arguments) const {
    const CommandResult result = plumbline(arguments + " --json " + path("result.json"));
    EXPECT_EQ(result.exit_code, 0) << arguments << "\n" << result.errors;
    return result.exit_code == 0 ? step_time() : 0;
  }

  // Returns the speed of the platform's hosts as its file states it: speed="96000000000f".
  std::string speed() const {
    const std::string text = model::read_text_file(path("platform.xml")).value(), before = "speed=\"";
    const std::size_t from = text.find(before) + before.size();
    return text.substr(from, text.find('"', from) - from);
  }

  TemporaryDirectory folder_;
  int ranks_;
  std::string arguments_;
};

constexpr int slot_track = 1, compute_track = 2, communication_track = 3, weight_gradient_track = 4;

// Phases are called attn(F), and kernels follow the phase that they are in.
bool is_phase(const Json& event) { return event["name"].get<std::string>().ends_with(")"); }

// Returns the slots or phases that ran, with their layer and micro-batch.
std::vector<std::string> slots_or_phases(int track, const std::vector<Json>& events) {
  std::vector<std::string> names;
  for (const Json& event : events)
    if (track == slot_track || is_phase(event)) {
      Json place = event["args"];
      place.erase("bytes");  // an execution does not count those of its all-to-alls
      names.push_back(event["name"].get<std::string>() + " " + place.dump());
    }
  return names;
}

// Returns the kernels of each phase.
std::vector<std::vector<std::string>> kernels(const std::vector<Json>& events) {
  std::vector<std::vector<std::string>> result;
  for (const Json& event : events) {
    if (is_phase(event)) result.emplace_back();
    if (!is_phase(event) && !result.empty()) result.back().push_back(event["name"]);
  }
  return result;
}

class ExecutedAsPredicted : public testing::TestWithParam<Division> {};

TEST_P(ExecutedAsPredicted, InTheSameOrder) {
  const Laboratory laboratory(GetParam());
  const auto predicted = laboratory.tracks("simulate"), executed = laboratory.tracks("run --clock cpu --steps 1");
  std::size_t slots = 0, compared = 0;
  for (const auto& [place, events] : predicted) {
    const auto [rank, track] = place;
    if (track > weight_gradient_track) continue;  // transfers and updates have other names where they are executed
    SCOPED_TRACE("rank " + std::to_string(rank) + ", track " + std::to_string(track));
    ASSERT_TRUE(executed.contains(place));
    EXPECT_EQ(slots_or_phases(track, executed.at(place)), slots_or_phases(track, events));
    if (track == slot_track) slots += events.size();
    if (track != compute_track && track != weight_gradient_track) continue;
    const auto expected = kernels(events), ran = kernels(executed.at(place));
    ASSERT_EQ(ran.size(), expected.size());
    for (std::size_t phase = 0; phase < expected.size(); ++phase)
      if (!expected[phase].empty()) {  // a trace of a prediction has the kernels of one slot of each kind
        EXPECT_EQ(ran[phase], expected[phase]);
        ++compared;
      }
  }
  EXPECT_GT(slots, 0U);
  EXPECT_GT(compared, 0U);
}

// A step whose transfers take no time is shorter than any prediction, at most by all the link time that it counts.
TEST_P(ExecutedAsPredicted, InTheSameTimeWhereMessagesTakeNone) {
  const Laboratory laboratory(GetParam());
  const double most = laboratory.predicted_on_links(), executed = laboratory.executed();
  EXPECT_LE(executed, most * (1 + rounding));
  EXPECT_GE(executed, most * (1 - share_of_links));
}

#ifdef PLUMBLINE_SMPIRUN
// On the simulated network a transfer takes the latency and the rate of the links, twice the latency with its header.
// This is less than by the profile, whose latency is five times as long and whose rate is a tenth. In a fixed order no
// step gets shorter when a transfer takes longer. The step therefore lies between the execution without transfer times
// and the prediction. These two are the tolerance: they differ by 0.3 % for a pipeline alone, and by up to 5 % for
// reductions of gradients and all-to-alls.
TEST_P(ExecutedAsPredicted, InTheSameTimeOnASimulatedNetwork) {
  const Laboratory laboratory(GetParam());
  const double least = laboratory.executed(), most = laboratory.predicted();
  const double executed = laboratory.executed_on_network();
  EXPECT_GE(executed, least * (1 - rounding));
  EXPECT_LE(executed, most * (1 + rounding));
  EXPECT_LT(most / least, 1.06);
}
#endif

INSTANTIATE_TEST_SUITE_P(Divisions, ExecutedAsPredicted, divisions, name_of);

// Schedules are chosen whose predictions differ clearly; their executed times have the same order.
TEST(SchedulesExecutedAsPredicted, ComeInThePredictedOrder) {
  const Laboratory slowest(one_forward_one_backward), middle(zero_bubble), fastest(dualpipe);
  EXPECT_GT(slowest.predicted_on_links(), middle.predicted());
  EXPECT_GT(middle.predicted_on_links(), fastest.predicted());
  EXPECT_GT(slowest.executed(), middle.executed());
  EXPECT_GT(middle.executed(), fastest.executed());
}

}  // namespace
}  // namespace plumbline::tests
