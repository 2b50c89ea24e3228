// The test of real_gradients_test.cc on several emulated GPUs: the CUDA backend with its streams, kernels, all-to-alls
// and collectives, over stand-ins for the runtime and NVIDIA's libraries (tests/support/host_gpu/).
#include <gtest/gtest.h>

#include <barrier>
#include <numeric>
#include <string>
#include <vector>

#include "real/cuda/comm/communicator.h"
#include "real/cuda/device/device.h"
#include "tests/support/real/channel_ranks.h"
#include "tests/support/real/divided_training.h"

namespace plumbline::tests {
namespace {

struct OnMachines {
  Division division;
  std::int32_t ranks_each;
  friend void PrintTo(const OnMachines& ranks, std::ostream* out) {
    *out << ranks.division.name << " with " << ranks.ranks_each << " to a machine";
  }
};

// Trains one rank and returns the text of its error, "" without one.
std::string train_on_gpu(const TrainingRequest& request, const std::string& machine, real::ControlChannel& channel,
                         TrainedRank& trained, std::barrier<>& ended) {
  const std::vector<std::string> folders = {PLUMBLINE_HOST_CUBLASLT_DIR, PLUMBLINE_HOST_NCCL_DIR};
  std::string error;
  const auto device = real::cuda::CudaDevice::open({channel.rank(), folders, 0});
  if (device) {
    const auto communicator =
        real::cuda::make_communicator(**device, channel, {.communication_sms = 2, .machine = machine});
    if (communicator)
      trained = train_on(request, **device, **communicator, error);
    else
      error = to_string(communicator.error());
    if (!error.empty()) channel.abort(error);
    ended.arrive_and_wait();  // other ranks may still read this one's memory
    return error;
  }
  channel.abort(to_string(device.error()));
  ended.arrive_and_wait();
  return to_string(device.error());
}

Trained train_on_gpus(const TrainingRequest& request, std::int32_t ranks_each) {
  const auto ranks = static_cast<std::int32_t>(request.plan.cluster.gpus);
  std::vector<std::int32_t> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  Trained trained;
  trained.ranks.resize(all.size());
  std::barrier ended(ranks);
  const std::vector<std::string> errors = on_ranks(ranks, all, {}, [&](real::ControlChannel& channel) {
    const std::string machine = "machine " + std::to_string(channel.rank() / ranks_each);
    return train_on_gpu(request, machine, channel, trained.ranks[static_cast<std::size_t>(channel.rank())], ended);
  });
  for (const std::string& error : errors)
    if (trained.error.empty()) trained.error = error;
  return trained;
}

class GpuGradients : public testing::TestWithParam<OnMachines> {};

// Both are FP32 with sums in another order, on GPUs also for every transfer of a token: some hundred roundings of 6e-8.
constexpr double rounding = 1e-4;

TEST_P(GpuGradients, EqualThoseOfOneRankOfTheHost) {
  const Division& division = GetParam().division;
  const Trained reference = train_all(request_of(whole_of(division)));
  const Trained divided = train_on_gpus(request_of(division), GetParam().ranks_each);
  ASSERT_EQ(reference.error, "");
  ASSERT_EQ(divided.error, "");
  EXPECT_NEAR(divided.loss(0), reference.loss(0), 1e-5 * reference.loss(0));
  EXPECT_NEAR(divided.ranks[0].steps[0].gradient_norm, reference.ranks[0].steps[0].gradient_norm,
              1e-4 * reference.ranks[0].steps[0].gradient_norm);
  if (division.zero_stage > 0) return;  // no rank holds the whole sum
  std::size_t compared = 0;
  for (std::size_t world = 0; world < divided.ranks.size(); ++world)
    for (const auto& [name, part] : divided.ranks[world].gradients) {
      EXPECT_LT(difference(division, world, reference.ranks[0].gradients.at(name), part), rounding)
          << name << " on rank " << world;
      ++compared;
    }
  EXPECT_GE(compared, reference.ranks[0].gradients.size());
}

INSTANTIATE_TEST_SUITE_P(
    Divisions, GpuGradients,
    testing::Values(
        OnMachines{{"pp2_1f1b", "1f1b", 2}, 2}, OnMachines{{"pp2_gpipe", "gpipe", 2}, 2},
        OnMachines{{.name = "pp2_interleaved", .schedule = "interleaved", .pipeline = 2, .virtual_stages = 2}, 2},
        OnMachines{
            {.name = "pp2_interleaved_overlap", .schedule = "interleaved-overlap", .pipeline = 2, .virtual_stages = 2},
            2},
        OnMachines{{"pp4_zb_h1", "zb-h1", 4}, 4}, OnMachines{{"pp2_zb_v", "zb-v", 2}, 1},
        OnMachines{{"pp4_dualpipe", "dualpipe", 4}, 2}, OnMachines{{"pp2_dualpipev", "dualpipev", 2}, 1},
        OnMachines{{.name = "dp2", .data = 2}, 2}, OnMachines{{.name = "dp4_zero1", .data = 4, .zero_stage = 1}, 4},
        OnMachines{{.name = "ep2", .data = 2, .expert = 2}, 2},
        OnMachines{{.name = "ep2_apart", .data = 2, .expert = 2}, 1},
        OnMachines{{.name = "ep4_on_two", .data = 4, .expert = 4}, 2},
        OnMachines{{.name = "tp2_sequence", .tensor = 2, .sequence = true}, 2},
        OnMachines{{.name = "tp2_ep2_sequence", .expert = 2, .tensor = 2, .sequence = true}, 2},
        OnMachines{{"pp2_ep2_dualpipe_zero1", "dualpipe", 2, 2, 2, 1, false, 1}, 2},
        OnMachines{{"pp2_ep4_zb_h1", "zb-h1", 2, 4, 4}, 2}),
    [](const auto& test) { return test.param.division.name; });

}  // namespace
}  // namespace plumbline::tests
